"""Shared parts of the `queue` commands: which queue, which jobs, live view, form of answers and errors.

Offers: `command_base.open_queue`, `command_base.add_common`, `command_base.act_on_jobs`, `live_view.show`,
`command_base.QueueOutput`.
Imports: `cli` (exit_codes, options, output, signals), `report.queue`, `queue`, `run`, `config`, `result`.
"""
