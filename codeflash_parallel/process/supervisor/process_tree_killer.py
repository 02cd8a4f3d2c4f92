"""Killing a family of processes, some of which do not want to be killed."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterable

from codeflash_parallel.process import process_table
from codeflash_parallel.process.process_table import ProcessEntry

#: Rounds of stopping what appeared since the last look; a fork bomb needs several.
_STOP_ROUNDS = 12
#: Name of the first process of a namespace of ours (`_runner.sandbox.namespaces`).
INIT = "cfp-init"


def strike(look: Callable[[], list[ProcessEntry]], foreign: Callable[[], set[int]]) -> list[ProcessEntry]:
    """Stop everybody, so that nobody can start another one meanwhile; then kill them all.

    Args:
        look: returns the family as it is now, zombies included.
        foreign: returns the process groups that are not the family's.

    Returns:
        The family as it was seen last.
    """
    family = look()
    _end_worlds(family)
    stopped: set[int] = set()
    for _ in range(_STOP_ROUNDS):
        moving = [p.pid for p in living(family) if p.pid not in stopped]
        if not moving:
            break
        _signal(moving, signal.SIGSTOP)
        stopped.update(moving)
        family = look()
    # Groups first: the kernel signals a whole group at once, which no fork slips through.
    # (A vanishing process may show 0 or -1 here, which mean something else to kill; a fork that has
    # just been adopted may still be in its template's group.)
    groups = {p.group for p in family if p.group > 1} - foreign()
    _signal([-group for group in groups], signal.SIGKILL)
    _signal([p.pid for p in living(family)], signal.SIGKILL)
    return family


def living(family: Iterable[ProcessEntry]) -> list[ProcessEntry]:
    """Return those that have not ended."""
    return [p for p in family if not p.gone]


def _end_worlds(family: list[ProcessEntry]) -> None:
    """Kill the first process of every process namespace: the kernel kills all others in there with it."""
    inits = [p.pid for p in living(family) if p.name == INIT]
    _signal([pid for pid in inits if process_table.own_number(pid) == 1], signal.SIGKILL)


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # gone; another user's: reported
            os.kill(pid, number)
