"""Long calls run at once: all arms share their core for as long as the calls last. Pure.

A shared machine changes its speed by a third every few milliseconds. Short blocks in turn meet the same of
it. A call of 0.3 s does not, and cannot be cut: pairs of them, one after the other, differ by 10 to 14 %
without a true difference. So arms that only compute run their long calls at the same time on the one core.
The kernel gives each some milliseconds in turn, and each one's CPU clock stands still meanwhile: what slows
the machine slows all of them (2 to 3 % are left).

Only CPU clocks can tell. Where the work waits or has children, rounds are run one arm after the other, and no
others count. The first round of a race is, to find that out, and how much memory all need together. Where
something was left in the host's shared memory all rounds are: it must be known who did it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from codeflash_parallel.race.measurement import DecidingClock, Round, clock_of
from codeflash_parallel.race.plan import RacePlan, WorkKind

#: Whole tests and commands may share a port or a folder: two at a time are another thing than one.
_ALONE = frozenset({WorkKind.TESTS, WorkKind.IN_PLACE, WorkKind.COMMAND})

#: Of the free memory all arms together may need so much.
_MEMORY_SHARE = 0.5


def may_run_together(rounds: Sequence[Round], arms: Collection[str], plan: RacePlan, free_bytes: int) -> bool:
    """Return whether the next round may run long calls of all arms at once.

    Args:
        rounds: of this race so far.
        arms: that take part in the next one, the baseline among them.
        plan: of this race.
        free_bytes: memory that nobody uses.
    """
    if plan.work in _ALONE or any(round_.unclean for round_ in rounds):
        return False
    if not rounds:
        return plan.together
    needed = sum(max(round_.peak_bytes.get(arm, 0) for round_ in rounds) for arm in arms)
    computes = all(clock_of(rounds, arm) is DecidingClock.CPU for arm in arms)
    return computes and needed <= _MEMORY_SHARE * free_bytes


def counting(rounds: Sequence[Round], clock: DecidingClock) -> list[Round]:
    """Return the rounds that say something on a clock; which arm gained in them plays no part.

    A round in which each ran alone scatters far more: once they run together only such rounds count.
    """
    if clock is DecidingClock.WALL:
        return [round_ for round_ in rounds if not round_.together]
    if rounds and rounds[-1].together:
        return [round_ for round_ in rounds if round_.together]
    return [*rounds]


def without_line(round_: Round) -> Round:
    """Return a round in which time in line for the core, behind the others' calls, is on no clock.

    For what the wall clock says beside the one that decides: work that is done by children is not seen so.
    """
    if not round_.together:
        return round_
    blocks = [
        replace(block, wall_ns=min(block.wall_ns, block.cpu_ns + block.waited_ns)) for block in round_.blocks
    ]
    return replace(round_, blocks=tuple(blocks))
