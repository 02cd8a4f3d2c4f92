"""The daemon: answers requests, dispatches jobs, supervises workers, writes result files.

Offers: `daemon.serve`, `daemon.open_daemon`.
Imports: `queue.worker`, `queue.client` (daemon_connection, store_queries), `queue.protocol`, `queue.store`,
`queue.database`, `run`, `workspace`, `process`, `config`, `result`.
"""
