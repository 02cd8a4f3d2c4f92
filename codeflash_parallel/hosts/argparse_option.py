"""The option that a host program adds to its own command line."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping

from codeflash_parallel.config.settings_table import Parallel

#: Environment variable that holds the default, for the host as for our own command.
VARIABLE = "CODEFLASH_PARALLEL_CANDIDATES"


def add_parallel_candidates_option(
    parser: argparse.ArgumentParser,
    *,
    default: Parallel = "auto",
    environ: Mapping[str, str] = os.environ,
) -> argparse.Action:
    """Give a host's parser the option ``--parallel-candidates N|auto``, and ``-j`` if that is free.

    The value arrives as ``args.parallel_candidates``: a positive `int` or ``"auto"``, ready for
    ``Settings(parallel_candidates=...)``.

    Args:
        parser: the host's parser, or a group of it.
        default: value when neither the option nor the environment gives one; a host whose own serial loop
            is to stay the default passes 1.
        environ: where `CODEFLASH_PARALLEL_CANDIDATES` is looked up; what it holds is checked when the host
            parses its command line, with argparse's own error message.

    Returns:
        The action, for hosts that want to change its help.
    """
    long = "--parallel-candidates"
    # argparse has no public way to ask; with conflict_handler="resolve", trying would take the host's own -j
    names = [long] if "-j" in parser._option_string_actions else ["-j", long]  # noqa: SLF001
    return parser.add_argument(
        *names,
        dest="parallel_candidates",
        type=parallel,
        default=environ.get(VARIABLE) or str(default),
        metavar="N|auto",
        help="candidates evaluated at once; auto: as many as the cores and the memory allow"
        f" (default: {default}, or ${VARIABLE})",
    )


def parallel(text: str) -> Parallel:
    """Read ``N`` or ``auto``.

    Raises:
        argparse.ArgumentTypeError: it is neither.
    """
    if text.strip() == "auto":
        return "auto"
    if not text.strip().isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a positive number or auto, not {text!r}")
    return int(text)
