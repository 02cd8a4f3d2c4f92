"""The package that runs inside the project's interpreter (standard library and pytest only): entry point,
session from spec to exit status, channels to the evaluator, paths of the slot, code that the user names.

Offers: __main__ (process entry), session.run / read_spec / hello / template, user_code.run,
channels.RecordChannel, ArmControl, OrderSocket and take_secret, slot_paths.PathLocations, neutral and settle.
Imports: all sub-rooms below; sub-rooms may import `channels`, `slot_paths` and `session` (read_spec, hello,
template, on_fork, PROTOCOL, RunnerFailure); nothing else of the package.
"""
