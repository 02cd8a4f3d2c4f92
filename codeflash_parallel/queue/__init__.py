"""The evaluation queue: jobs, policy, protocol, settings, errors and metrics that its sub-rooms share.

Offers: `sync_client.EvalQueueClient`, `async_client.AsyncEvalQueueClient`, `job_builder.job_request`,
`daemon.daemon.serve`, `queue_settings`.
Imports: `run` and the rooms below it; `daemon`, then `worker` and the clients, then `store`.
"""
