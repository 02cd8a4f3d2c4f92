"""Arms of the race: a warm template forks units that run captured calls, whole tests, benchmark fixtures or
a user's workload.

Offers: race_arm.run, call_workload.CallWork, pytest_workload.PytestWork, pytest_workload.FixtureWork,
user_workload.CallableWork and CommandWork.
Imports: _runner.session, pytest_plugin, replay, capture, values, imports, sandbox, paths,
channel.
"""
