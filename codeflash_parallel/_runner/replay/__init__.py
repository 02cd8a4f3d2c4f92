"""Make captured calls again and record results, side effects and stability of results.

Offers: replay_session.run, target_functions.Targets, call_effects.
Imports: _runner.values, integrity, imports, process, slot_paths.
"""
