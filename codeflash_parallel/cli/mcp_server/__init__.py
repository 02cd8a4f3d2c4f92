"""The `mcp` command: a server of the Model Context Protocol on standard input and output, with five tools.

Offers: `command.COMMANDS`. `tools` alone imports the package `mcp`, which is an extra; `submitted_runs` keeps
the state of runs, `child_processes` starts and ends commands, `requests` and `answers` are texts.
Imports: `cli`, `report`, `run`, `candidates`, `config`, `result`.
"""
