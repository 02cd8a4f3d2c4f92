"""The `queue` commands: `submit`; `wait` and `result`; `views` of the queue; `control` of it and its jobs.

Offers: each module has its commands by name in `COMMANDS`; `command_base.QueueOutput`.
Imports: `cli`, `cli.run_support`, `report`, `queue`, `run`, `config`, `result`.
"""
