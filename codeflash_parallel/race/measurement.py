"""Measurements of a race: blocks, rounds, the channel's part of a block, the clock that decides. Pure.

Valid rounds are those of a quiet machine. No rule here looks at which arm gained: time in line for a core is
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

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from statistics import median

from codeflash_parallel.race.plan import BASELINE, RacePlan, WorkKind

#: Share of CPU time that other processes of a unit must have used before the wall clock decides.
CHILDREN_SHARE = 0.05

#: And nanoseconds a round: the end of a process itself costs about one millisecond, give or take.
CHILDREN_NS = 1_000_000

#: Share of a block's time spent neither running nor in line for a core, beyond what the channel costs,
#: from which on the work counts as waiting and the wall clock decides.
WAITING_SHARE = 0.20

#: And nanoseconds of a block: what the way to the arm and back scatters by on a busy machine. An arm that is
#: fifty times as fast has blocks that are hardly longer.
WAITING_NS = 100_000

#: No block is taken to be shorter than this: the clock's own grain, and a guard of the logarithm.
LEAST_NS = 500


class DecidingClock(StrEnum):
    """Clock that decides."""

    #: CPU time of the unit, all its threads.
    CPU = "cpu"
    #: Monotonic time.
    WALL = "wall"


class BlockKind(StrEnum):
    """Purpose of a block."""

    #: No calls: what the channel costs.
    EMPTY = "empty"
    #: A group's inputs in a new process: pays whatever the first calls pay.
    FIRST = "first"
    #: Counts.
    TIMED = "timed"
    #: Counts, too: twins of a group's inputs, which nobody has seen, each once in a process ...
    TWIN = "twin"
    #: ... and as many of the baseline's calls with known inputs: what a short block costs beside its calls.
    KNOWN = "known"
    #: As many calls of the baseline as candidates' timed blocks hold, where those hold more.
    MANY = "many"


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """One block as the parent's clocks saw it.

    Attributes:
        start: number of the first input.
        prepared_ns: CPU time of the unit before GO: what making the inputs cost.
        waited_ns: wall time spent neither running nor waiting for a core, by the unit or by us.
        digest: of the outcomes of one cycle; empty for empty blocks.
        deferred_ns: CPU time of the unit between DONE and CHECKED: what encoding the kept outcomes cost.
        kept: outcomes that were encoded, of one cycle or of twins.
        reads: read calls on files, those of the channel included.
        children: processes that the unit had started and not reaped at DONE.
        windows: calls that were timed in place, whose times all others are; else 1.
        rest_ns: CPU time of the unit besides these.
    """

    arm: str
    kind: BlockKind
    group: int = 0
    calls: int = 0
    start: int = 0
    cpu_ns: int
    wall_ns: int
    waited_ns: int = 0
    prepared_ns: int = 0
    digest: str = ""
    deferred_ns: int = 0
    kept: int = 0
    reads: int = 0
    children: int = 0
    windows: int = 1
    rest_ns: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Round:
    """One fork of every arm onto one core.

    Attributes:
        layout: number of the set of processes that the units were forked from.
        core: the core, or -1 where arms are not pinned.
        blocks: in the order in which they ran.
        children_ns: by arm, CPU time that `wait4` knows of and the unit's own clock does not.
        void: why the round does not count; empty when it does. Never depends on which arm gained.
        peak_bytes: by arm, the unit's peak of resident memory beyond what it held when it was forked.
        start_ns: by arm, CPU time that its process of this layout needed to become ready.
        queued: share of the timed blocks, all arms together, that was spent in line for a core.
        unclean: arms whose units left something behind that a later unit could find.
        together: long calls of all arms ran at once (see `may_run_together`).
    """

    number: int
    layout: int
    core: int
    blocks: tuple[Block, ...]
    children_ns: Mapping[str, int] = field(default_factory=dict)
    void: str = ""
    peak_bytes: Mapping[str, int] = field(default_factory=dict)
    start_ns: Mapping[str, int] = field(default_factory=dict)
    queued: float = 0.0
    unclean: tuple[str, ...] = ()
    together: bool = False


def blocks_of(
    rounds: Sequence[Round], arm: str, kind: BlockKind, group: int | None = None
) -> Iterator[Block]:
    """Yield an arm's blocks of one kind (and group) in order."""
    for round_ in rounds:
        for block in round_.blocks:
            if block.arm == arm and block.kind is kind and group in (None, block.group):
                yield block


@dataclass(frozen=True, kw_only=True, slots=True)
class ChannelCost:
    """Cost of a block without calls, or of a window in it: it is taken off every other one."""

    cpu_ns: float = 0.0
    wall_ns: float = 0.0


def channel_cost(rounds: Sequence[Round]) -> ChannelCost:
    """Return what the channel to an arm costs a block, lower quartile.

    It is the baseline's for all arms. A candidate that burns time in its blocks without calls would gain by
    its own in all others; and what is taken off must not depend on who was first on a core that slept.
    """
    empty = list(blocks_of(rounds, BASELINE, BlockKind.EMPTY))
    return ChannelCost(
        cpu_ns=_low([block.cpu_ns // max(1, block.windows) for block in empty]),
        wall_ns=_low([block.wall_ns // max(1, block.windows) for block in empty]),
    )


def net_ns(block: Block, cost: ChannelCost, clock: DecidingClock) -> float:
    """Return a block's time on one clock without the channel's."""
    return max(beyond_ns(block, cost, clock), LEAST_NS)


def beyond_ns(block: Block, cost: ChannelCost, clock: DecidingClock) -> float:
    """Return the same for differences: below zero where the channel was dearer when it was measured."""
    if clock is DecidingClock.CPU:
        return block.cpu_ns - cost.cpu_ns * block.windows
    return block.wall_ns - cost.wall_ns * block.windows


def clock_of(rounds: Sequence[Round], arm: str) -> DecidingClock:
    """Return the clock that decides for an arm: CPU, unless children worked or the work is waiting."""
    usual_ns = _idle_ns(rounds, BASELINE, BlockKind.TIMED)
    channel_ns = _idle_ns(rounds, BASELINE, BlockKind.EMPTY)
    more_ns = _idle_ns(rounds, arm, BlockKind.TIMED) - usual_ns
    if _waits(rounds, BASELINE, usual_ns - channel_ns) or _waits(rounds, arm, more_ns):
        return DecidingClock.WALL
    return DecidingClock.WALL if _has_children(rounds, arm) else DecidingClock.CPU


def _waits(rounds: Sequence[Round], arm: str, idle_ns: int) -> bool:
    """Return whether an arm that is idle for so long in a block waits.

    A candidate is told by what it idles beyond the baseline: on a busy machine we make both wait, and the
    blocks of a fast arm are so short that it would pass for its own doing.
    """
    busy_ns = _low([b.cpu_ns for b in blocks_of(rounds, arm, BlockKind.TIMED)])
    return idle_ns > max(WAITING_NS, WAITING_SHARE * (idle_ns + busy_ns))


def _idle_ns(rounds: Sequence[Round], arm: str, kind: BlockKind) -> int:
    """Return how long an arm's blocks of one kind are idle, lower quartile."""
    return _low([block.waited_ns for block in blocks_of(rounds, arm, kind)])


def _low(values: Sequence[int]) -> int:
    """Return the lower quartile; 0 where there is nothing."""
    return sorted(values)[len(values) // 4] if values else 0


def _has_children(rounds: Sequence[Round], arm: str) -> bool:
    extras, shares = [], []
    for round_ in rounds:
        own = sum(block.cpu_ns for block in round_.blocks if block.arm == arm)
        if own and arm in round_.children_ns:
            extras.append(round_.children_ns[arm] - round_.children_ns.get(BASELINE, 0))
            shares.append(extras[-1] / own)
    return bool(shares) and median(shares) > CHILDREN_SHARE and median(extras) > CHILDREN_NS


#: Whole tests and commands may share a port or a folder: two at a time are another thing than one.
_ALONE = frozenset({WorkKind.TESTS, WorkKind.IN_PLACE, WorkKind.COMMAND})

#: Of the free memory all arms together may need so much.
_MEMORY_SHARE = 0.5

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
