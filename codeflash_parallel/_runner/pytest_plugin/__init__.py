"""One pytest session as the evaluator wants it: options, selection, phase records, early stop, xdist
workers.

Offers: pytest_session.run, session_plugin.SessionPlugin, pytest_session.prepare.
Imports: _runner.session, profile, capture, integrity, imports, process, channels.
"""
