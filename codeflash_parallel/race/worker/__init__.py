"""Start, drive, account for and clean up the processes of one arm of a race.

Offers: arm_pool.start_field (ArmPool), RaceEnvironment, arm_worker.ArmWorker and ResultJudge,
process_accounting.ProcessAccounting, leftover_files.LeftoverFiles.
Imports: race.plan, race.measurement, race.race_result, sandbox, process, result.
"""
