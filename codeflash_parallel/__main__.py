"""The command line as a process: what `codeflash-parallel` and `python -m codeflash_parallel` run."""

from __future__ import annotations

import gc
import sys
from typing import NoReturn

#: Objects between two looks for garbage. What a start makes stays (modules, classes, parsers), and Python,
#: left to itself, looks through it a hundred times: a tenth of what `queue submit` takes.
_SELDOM = 50_000


def start() -> NoReturn:
    """Run the command line and end the process with its exit code."""
    gc.set_threshold(_SELDOM)
    from codeflash_parallel.cli.main import main

    code = main()
    gc.freeze()  # what is left ends with the process: the last look finds nothing to look through
    sys.exit(code)


if __name__ == "__main__":
    start()
