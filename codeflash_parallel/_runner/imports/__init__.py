"""Import modules from the slot only, from source where it counts, with hooks around target functions.

Offers: import_guard.install, source_loader.Instrumentation and VerifiedSources.
Imports: _runner.session, slot_paths.
"""
