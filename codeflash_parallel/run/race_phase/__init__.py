"""The race step of a run: choice of the workload, exclusive use of the machine, races and confirmations.

Offers: `race_coordinator.RaceCoordinator`, `workload_choice.choose_workload`, `workload.race_plan`,
`race_coordinator.load_policy`.
Imports: run.check_phase, modules of run, baseline, check, race and the rooms below.
"""
