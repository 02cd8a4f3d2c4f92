"""The worker process: evaluates one job after the other with an evaluator that stays open.

Offers: `worker_process.main`, `job_executor.JobExecutor`, `job_executor.Assignment`.
Imports: `queue.daemon_protocol`, `queue`, `run`, `workspace`, `process`, `config`, `result`.
"""
