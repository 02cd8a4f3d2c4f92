"""The race step of a run: choice of the workload, exclusive use of the machine, races and confirmations.

Offers: `race_coordinator.hold_race`, `workload.choose_workload`, `race_terms.race_terms`,
`ranking_policy_loader.load_policy`.
Imports: run.check_phase, run.intake, run.state, baseline, check, race and the rooms below.
"""
