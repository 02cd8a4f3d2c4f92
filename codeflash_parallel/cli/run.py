"""`run`: check, race and profile candidates. Its options are the settings of `config.settings`."""

from __future__ import annotations

import argparse

from codeflash_parallel.cli.output import Output
from codeflash_parallel.cli.run_support.evaluation import add_arguments, evaluate

__all__ = ["add_arguments", "run"]


def run(args: argparse.Namespace, output: Output) -> int:
    """Evaluate candidates; return 0 if there is a winner or a tie."""
    return evaluate(args, output, "race")
