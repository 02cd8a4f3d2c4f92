"""Run pytest or a call replay once in the project's interpreter and read its report.

Offers: runner_session.run_session and the specs of runs, runner_report.RunnerReport, selected_tests.
Imports: check.integrity, check.comparison, check.baseline_model, process, candidates, result.
"""
