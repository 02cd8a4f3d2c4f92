"""The package that runs inside the project's interpreter (standard library and pytest only): entry point,
session from spec to exit status, and the two modes without a room of their own (user's command, user's
judge).

Offers: __main__ (process entry), session.run / read_spec / hello, user_command.run, user_judge.run.
Imports: all sub-rooms below; sub-rooms may import `session` (read_spec, hello, PROTOCOL, RunnerFailure);
nothing else of the package.
"""
