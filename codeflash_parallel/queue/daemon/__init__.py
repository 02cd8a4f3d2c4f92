"""The daemon: answers requests, dispatches jobs, supervises workers, writes result files.

Offers: `daemon.serve`, `daemon.open_daemon`.
Imports: `queue` (worker, daemon_protocol), `queue.store`, `run`,
`workspace`, `process`, `config`, `result`.
"""
