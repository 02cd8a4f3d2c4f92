"""Resources that all calls of one evaluator share: isolation, launcher, mirror, slots, baseline.

Offers: `evaluator_setup.set_up`, `evaluator_resources.EvaluatorResources`,
`baseline_manager.BaselineManager`, `machine_shares.shares_of`.
Imports: run.target_functions, warm, baseline, check and the rooms below.
"""
