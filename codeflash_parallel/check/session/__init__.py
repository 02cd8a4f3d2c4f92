"""Run pytest or a call replay once in the project's interpreter and read its report.

Offers: runner_session.run_guest and RunnerSession, runner_report.RunnerReport, pytest_arguments,
selected_tests, replay_specs, xdist_workers.
Imports: check.integrity, check.comparison, check.baseline_model, process, candidates, result.
"""
