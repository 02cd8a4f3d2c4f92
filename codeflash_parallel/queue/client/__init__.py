"""Clients of the queue: through the daemon, or on the store where there is no daemon.

Offers: `sync_client.EvalQueueClient`, `async_client.AsyncEvalQueueClient`, `job_future.JobFuture`.
Imports: `queue.protocol`, `queue.store`, `queue`, `result`.
"""
