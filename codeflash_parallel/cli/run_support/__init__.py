"""Shared parts of `run`, `check`, `resume` and `show`: read the arguments, run the evaluator in an event
loop, report the result, find an earlier run.

Offers: `evaluation.evaluate`, `event_loop.drive`, `run_finder.find_places`,
`verdict_exit_codes.exit_code_of`.
Imports: `cli` (exit_codes, options, output, signals), `report`, `run`, `workspace`, `candidates`, `config`,
`result`.
"""
