"""Assembly of the result of a run: findings, final statuses, verdict, time per phase, result stream.

Offers: `result_builder`, `final_verdict.finish_all`, `run_findings.RunFindings`,
`result_stream.ResultStream`.
Imports: run.race_phase, run.setup, run.state, warm and the rooms below run.
"""
