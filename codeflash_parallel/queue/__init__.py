"""The evaluation queue: jobs, policy, protocol, settings, errors and metrics that its sub-rooms share.

Offers: `client.sync_client.EvalQueueClient`, `client.async_client.AsyncEvalQueueClient`,
`daemon.daemon.serve`, `queue_settings`.
Imports: `run` and the rooms below it; sub-rooms in this order: daemon, worker, submission, client, store.
"""
