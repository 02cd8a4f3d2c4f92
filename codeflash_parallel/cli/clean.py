"""`clean`: remove from the cache what no living run needs."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from codeflash_parallel.cli.exit_codes import ExitCode
from codeflash_parallel.cli.output import Output
from codeflash_parallel.config.settings_reader import read_settings

_DAY_S = 24 * 60 * 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `clean`."""
    parser.add_argument("--dry-run", action="store_true", help="Only say what would be removed.")
    parser.add_argument(
        "--older-than",
        metavar="DAYS",
        type=_days,
        default=0.0,
        help="Only what is older. Default: everything.",
    )


def _days(text: str) -> float:
    try:
        days = float(text)
    except ValueError:
        days = -1.0
    if not 0 <= days < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a number of days, not {text!r}")
    return days


def run(args: argparse.Namespace, output: Output) -> int:
    """Remove results, baselines, mirrors and slots of all repositories that are not in use."""
    from codeflash_parallel.config.user_context import cache_root
    from codeflash_parallel.result.safe_text import one_line
    from codeflash_parallel.workspace.cleanup import CleanMode, clean

    settings = read_settings(Path(args.project), os.environ, vars(args)).settings
    mode = CleanMode.DRY_RUN if args.dry_run else CleanMode.REMOVE
    leftovers = clean(cache_root(settings), mode, older_than_s=args.older_than * _DAY_S)
    lines = [f"{leftover.kind.value}: {one_line(str(leftover.path))}\n" for leftover in leftovers]
    output.write("".join(lines))
    word = "would be removed" if args.dry_run else "removed"
    sys.stderr.write(f"{len(lines)} {word} from {one_line(str(cache_root(settings)))}\n")
    return ExitCode.OK
