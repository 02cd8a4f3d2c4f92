"""The process that is codeflash: `python -m codeflash_parallel.hosts.codeflash LOG SETTINGS [ARGUMENTS]`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from codeflash_parallel.hosts.codeflash.candidate_race import racing_class, say
from codeflash_parallel.hosts.codeflash.known_interface import INSTALL, PROPERTY, SUPPORT, find, why_unknown
from codeflash_parallel.hosts.codeflash.race_log import RaceLog


def start(arguments: Sequence[str]) -> None:
    """Run codeflash, with its evaluation of candidates replaced where its interface is the known one.

    Args:
        arguments: path of the log, settings by name as JSON, and codeflash's own.
    """
    log, given = RaceLog(path=Path(arguments[0])), json.loads(arguments[1])
    sys.argv = ["codeflash", *arguments[2:]]  # before its import: it looks at them there
    if why := why_unknown():
        say(f"Candidates are evaluated by codeflash itself, one by one: {why}. Known one: {INSTALL}")
        log.note_unreplaced(why)
    else:
        support = find(SUPPORT)
        base = getattr(support, PROPERTY).fget
        setattr(support, PROPERTY, property(lambda self: racing_class(base(self), given, log)))
    find("codeflash.main:main")()


if __name__ == "__main__":
    start(sys.argv[1:])
