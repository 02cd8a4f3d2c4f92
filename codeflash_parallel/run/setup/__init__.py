"""Resources that all calls of one evaluator share: isolation, launcher, mirror, slots, baseline.

Offers: `evaluator_setup.set_up`, `evaluator_resources.EvaluatorResources`,
`evaluator_resources.BaselineManager`.
Imports: run.run_targets, warm, baseline, check and the rooms below.
"""
