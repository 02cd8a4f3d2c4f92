"""The command line; a module has its commands in `COMMANDS`.

`run.py`: run, check, resume; `stored_runs.py`: apply, show, list, clean; `doctor.py`; `serve.py`; `queue/`;
`hosts/`: score, codeflash.
With `--keep-warm`, `warm_client.py` hands a command to `warm_daemon.py`, which runs it.

Offers: `main.main`, `stored_runs.report`, `output.Output`, `exit_codes.ExitCode`.
Imports: every room.
"""
