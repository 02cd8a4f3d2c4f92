"""Import modules from the slot only, from source where it counts, with hooks around target functions.

Offers: import_guard.install, source_loader, instrumentation.Instrumentation,
bytecode_cache.restrict_bytecode, editable_installs.
Imports: _runner.process, paths, channel.
"""
