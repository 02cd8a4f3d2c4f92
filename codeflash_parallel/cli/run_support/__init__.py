"""Shared parts of `run`, `check`, `resume` and `show`.

Offers: `evaluation.evaluate`, `event_loop.drive`, `run_finder.find_places`,
`verdict_exit_codes.exit_code_of`.
Imports: `cli` (exit_codes, options, output, signals), `report`, `run`, `workspace`, `candidates`, `config`,
`result`.
"""
