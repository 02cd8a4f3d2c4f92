"""The package that runs inside the project's interpreter (standard library and pytest only): entry point,
session from spec to exit status, and the user's judge.

Offers: __main__ (process entry), session.run / read_spec / hello / template, user_judge.run.
Imports: all sub-rooms below; sub-rooms may import `session` (read_spec, hello, template, on_fork, PROTOCOL,
RunnerFailure); nothing else of the package.
"""
