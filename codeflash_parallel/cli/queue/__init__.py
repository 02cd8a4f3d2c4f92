"""The `queue` commands, one file per command.

Offers: Each module offers `add_arguments` (or takes it from `cli.queue_support`) and `run`.
Imports: `cli`, `cli.queue_support`, `report`, `queue`, `run`, `config`, `result`.
"""
