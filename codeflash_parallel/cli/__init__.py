"""The command line: one file per command, options, output, exit codes and signals.

Offers: `main.main` runs a command line; each command module offers `add_arguments` and `run`;
`exit_codes.reporting_errors` turns errors into exit codes.
Imports: Every room except `_runner`; its sub-rooms `run_support`, `doctor_checks`, `queue`.
"""
