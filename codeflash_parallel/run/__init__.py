"""The order of one run from candidates to a result, the public evaluator, and the files of a run.

Offers: `pipeline.Run`, `evaluator.Evaluator`, `evaluator.evaluate`, `evaluator.resume`,
`kept_evaluators.EvaluatorThread`,
`ledger.Ledger`, `ledger.RunContext`, `run_state.StepCache`,
`run_state.read_state`, `run_folder.stored_result`, `run_trace.read_trace`, `run_targets.targets_of`.
Imports: all sub-rooms of run and all rooms below run.
"""
