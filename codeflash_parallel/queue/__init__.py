"""The evaluation queue: jobs, settings, errors, clock and metrics that all its sub-rooms share.

Offers: `client.sync_client.EvalQueueClient`, `client.async_client.AsyncEvalQueueClient`,
`daemon.daemon.serve`, `settings_reader`.
Imports: `run` and the rooms below it; sub-rooms in this order: daemon, worker, submission, client,
protocol, store, database, policy.
"""
