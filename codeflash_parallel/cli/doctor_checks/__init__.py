"""Checks of `doctor` that need more than a few lines: the project's interpreter, the queue, the race of
identical code.

Offers: `interpreter_probe.versions`, `queue_check.state_of_queue`, `race_check.check_race`.
Imports: `cli` (exit_codes, output, signals), `queue`, `run`, `race`, `process`, `config`, `result`.
"""
