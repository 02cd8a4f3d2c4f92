"""Make captured calls again and record results, side effects and stability of results.

Offers: call_replay.run, target_functions.Targets, global_effects, process_effects, result_stability,
scratch_arguments.
Imports: _runner.values, serialization, integrity, imports, process, paths.
"""
