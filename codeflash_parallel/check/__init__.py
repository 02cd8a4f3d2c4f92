"""Check one candidate in one slot: tests, then replayed calls.

Offers: `checker.check`, `check_plan.CheckPlan`, `baseline_model.Baseline`, `candidate_changes.Changes`,
`shortage_attribution` (disk and memory), `review_flags` (suspicious constructs, hints only).
Imports: `workspace` and the rooms below it.
"""
