"""Submission of jobs: job request, early rejection of candidates that cannot apply.

Offers: `job_builder.job_request`, `queued_evaluation.evaluate_queued`.
Imports: queue.client, run, workspace, candidates, config, result.
"""
