"""Clients of the queue: through the daemon, or on the store if no daemon runs.

Offers: `sync_client.EvalQueueClient`, `async_client.AsyncEvalQueueClient`.
Imports: `queue` (protocol, job_result, jobs, settings), `queue.store`, `result`.
"""
