"""The check step of a run: slots, screening, watched functions, fresh inputs, admission to the race.

Offers: `check_coordinator.CheckCoordinator`, `candidate_examiner.CandidateExaminer`,
`check_coordinator.RaceAdmission`.
Imports: run.setup, modules of run, baseline, check, race, warm and the rooms below.
"""
