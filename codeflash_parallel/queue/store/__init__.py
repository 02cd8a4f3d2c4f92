"""The durable job store: each call is one transaction.

Offers: `store.Store`, `database.open_database`.
Imports: `queue` (policy, errors, jobs, metrics, settings), `process`, `result`.
"""
