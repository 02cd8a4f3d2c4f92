"""Check one candidate in one slot: tests, then replayed calls.

Offers: `checker.check`, `check_plan.CheckPlan`, `assessment`, `call_replay.CallReplay`,
`baseline_model.Baseline`, `kill_history.Kills`.
Imports: `workspace` and the rooms below it.
"""
