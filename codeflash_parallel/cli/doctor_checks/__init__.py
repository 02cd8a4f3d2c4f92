"""Checks of `doctor`: the project's interpreter, the queue, a race of identical code.

Offers: `interpreter_probe.versions`, `queue_check.state_of_queue`, `race_check.check_race`.
Imports: `cli` (exit_codes, output, signals), `queue`, `run`, `race`, `process`, `config`, `result`.
"""
