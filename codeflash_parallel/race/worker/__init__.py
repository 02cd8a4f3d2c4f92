"""Start, drive, account for and clean up the processes of one arm of a race.

Offers: process_start.start_fork_server and start_template, arm_pool.start_field (ArmPool),
arm_worker.ArmWorker, process_accounting.ProcessAccounting, leftover_files.LeftoverFiles,
arm_failure.ArmFailure and its subclasses, result_judge.ResultJudge (protocol).
Imports: race.plan, race.measurement, race.race_result, sandbox, process, result.
"""
