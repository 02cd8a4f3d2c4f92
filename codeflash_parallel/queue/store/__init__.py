"""The durable job store: each call is one transaction.

Offers: `store.Store`.
Imports: `queue.database`, `queue.policy`, `queue` (errors, jobs, metrics, settings), `process`, `result`.
"""
