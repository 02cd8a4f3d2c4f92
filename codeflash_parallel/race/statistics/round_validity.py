"""Valid rounds: those of a quiet machine; and when long calls of all arms run at once. Pure.

No rule here looks at which arm gained: clocks that jumped are the machine's, and time in line for a core is
added up over the timed blocks of all arms alike. A rule that may void one round in four at most cannot be
used by an arm to choose its rounds either.

Long calls of arms that only compute run at the same time on the one core. A shared machine changes its speed
by a third every few milliseconds: short blocks in turn meet the same of it, a call of 0.3 s does not, and
pairs of them, one after the other, differ by 10 to 14 % without a true difference. At once, the kernel gives
each some milliseconds in turn, each one's CPU clock stands still meanwhile, and 2 to 3 % are left.

Only CPU clocks can tell. Where the work waits or has children, rounds run one arm after the other, and no
others count. The first round of a race does, which shows that and how much memory all need together. Where
something was left in the host's shared memory all rounds do, so that the arm that left it is known.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from statistics import median

from codeflash_parallel.race.measurement import Block, BlockKind, DecidingClock, Round, clock_of
from codeflash_parallel.race.plan import RacePlan, WorkKind

#: Whole tests and commands may share a port or a folder: two at a time are another thing than one.
_ALONE = frozenset({WorkKind.TESTS, WorkKind.IN_PLACE, WorkKind.COMMAND})

#: Of the free memory all arms together may need so much.
_MEMORY_SHARE = 0.5

#: Nanoseconds by which two clocks may part in a round before the machine slept or a clock was set. Clocks
#: that are only steered part by less than half a millisecond a second.
_STEP_NS = 50_000_000
_STEERED_SHARE = 0.001

#: A round is disturbed when this share of its timed blocks was time in line for a core ...
_DISTURBED = 0.5
#: ... and so many times what has been usual in this race: on a machine that is always busy it says nothing.
_UNUSUAL = 2.0
#: So many rounds tell what is usual.
_USUAL_AFTER = 4
#: One round in so many may be void for that, at most.
_VOIDED_OF = 4


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


@dataclass(frozen=True, kw_only=True, slots=True)
class MachineReading:
    """The machine's clocks at one moment.

    Attributes:
        monotonic_ns: stands still while the machine sleeps.
        boot_ns: goes on while it sleeps.
        real_ns: the time of day, which can be set.
    """

    monotonic_ns: int
    boot_ns: int
    real_ns: int


def stepped(before: MachineReading, after: MachineReading) -> str:
    """Return what happened to the clocks between two readings, empty if nothing did."""
    passed_ns = after.monotonic_ns - before.monotonic_ns
    allowed_ns = _STEP_NS + _STEERED_SHARE * passed_ns
    if after.boot_ns - before.boot_ns - passed_ns > allowed_ns:
        return "the machine slept"
    if abs(after.real_ns - before.real_ns - passed_ns) > allowed_ns:
        return "the clock was set"
    return ""


def queued_share(blocks: Sequence[Block]) -> float:
    """Return the share of the timed blocks, all arms together, that was spent in line for a core."""
    timed = [b for b in blocks if b.kind is BlockKind.TIMED]
    whole_ns = sum(b.wall_ns for b in timed)
    queued_ns = sum(max(0, b.wall_ns - b.cpu_ns - b.waited_ns) for b in timed)
    return queued_ns / whole_ns if whole_ns else 0.0


def judged(earlier: Sequence[Round], round_: Round) -> Round:
    """Return a round, void if it was disturbed far more than the rounds before it.

    Args:
        earlier: all rounds of the race before this one, void ones included.
        round_: the new one.
    """
    # Arms that run at once stand in line for each other: what is usual there is not what is usual in turn.
    alike = [r for r in earlier if r.together == round_.together]
    usual = [r.queued for r in alike if not r.void]
    voided = sum(bool(r.void) for r in earlier)
    may_be_void = len(usual) >= _USUAL_AFTER and (voided + 1) * _VOIDED_OF <= len(earlier) + 1
    if round_.void or not may_be_void or round_.queued <= max(_DISTURBED, _UNUSUAL * median(usual)):
        return round_
    return replace(round_, void="the machine was much busier than before")


def void_note(rounds: Sequence[Round]) -> str:
    """Return how many rounds do not count and why, a sentence; empty when all do."""
    reasons = sorted({r.void for r in rounds if r.void})
    if not reasons:
        return ""
    count = sum(bool(r.void) for r in rounds)
    return f"{count} of {len(rounds)} rounds do not count: {', '.join(reasons)}."
