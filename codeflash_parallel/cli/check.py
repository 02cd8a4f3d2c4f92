"""`check`: the same as `run` without the race."""

from __future__ import annotations

import argparse

from codeflash_parallel.cli.output import Output
from codeflash_parallel.cli.run_support.evaluation import add_arguments_without_race as add_arguments
from codeflash_parallel.cli.run_support.evaluation import evaluate

__all__ = ["add_arguments", "run"]


def run(args: argparse.Namespace, output: Output) -> int:
    """Evaluate candidates; return 0 if at least one is equivalent to the baseline."""
    return evaluate(args, output, "check")
