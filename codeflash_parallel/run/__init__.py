"""The order of one run from candidates to a result, and the public evaluator.

Offers: `pipeline.Run`, `evaluator.Evaluator`, `evaluator.evaluate`, `run_resumption.resume`,
`custom_grader.grade`.
Imports: all sub-rooms of run and all rooms below run.
"""
