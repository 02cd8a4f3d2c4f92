"""Arms of the race: a warm template forks units that run captured calls, whole tests, benchmark fixtures or
a user's workload (`user_code`).

Offers: race_arm.run and run_server, call_workload.CallWork, pytest_workload.PytestWork and FixtureWork.
Imports: _runner.session, user_code, pytest_plugin, replay, capture, values, imports, sandbox, process,
slot_paths, channels.
"""
