"""What a race measured, and the figures that follow from it. Nothing here acts.

A round gives, per arm and group, blocks that each ran the same calls. Each block of an arm is set against the
one baseline block nearest to it in its palindrome; the median of the logarithms of these ratios is a round's
value, above zero where the arm is faster. One against one, because exchanging the two then exchanges the sign
and nothing else: without a true difference a round's value is as likely to be above zero as below, by any
amount. The median, because a block now and then takes twice as long for reasons of the machine: it halves the
spread of a round. An arm whose own blocks differ (it does in some what others put off) gets the ratio of
means instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import exp, log, log1p
from statistics import fmean, median
from typing import NamedTuple

from codeflash_parallel.benchmark.evidence import Evidence
from codeflash_parallel.benchmark.plan import BASELINE, RacePlan, weights

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

#: Work that an arm does after the clock is charged to it when it exceeds the baseline's by this share of it,
#: with this error over all looks. (Three standard errors, looked at after every round, charge equal arms.)
DEFERRED_SHARE = 0.10
DEFERRED_ERROR = 0.01

#: And by nanoseconds: what the process is still warm from makes the same encoding differ by half of this,
#: always to the same side.
DEFERRED_NS = 50_000

#: The same for work that an arm does before the clock, when its inputs are made; it is the same code for all,
#: so that less is allowed.
PREPARED_SHARE = 0.10
PREPARED_NS = 2_000

#: An arm's blocks differ among themselves when their mean exceeds their median by this share more than the
#: baseline's do, with this error over all looks.
UNEVEN_SHARE = 0.02
UNEVEN_ERROR = 0.01

#: No block is taken to be shorter than this: the clock's own grain, and a guard of the logarithm.
LEAST_NS = 500


class Clock(StrEnum):
    """Which clock decides."""

    #: CPU time of the unit, all its threads.
    CPU = "cpu"
    #: Monotonic time.
    WALL = "wall"


class BlockKind(StrEnum):
    """What a block was for."""

    #: No calls: what the channel costs.
    EMPTY = "empty"
    #: The first half of a group's inputs in a fresh process: pays whatever the first call pays.
    FIRST = "first"
    #: The other half of the inputs, for the first time.
    COLD = "cold"
    #: The same half again; the difference to `COLD` tells caches from speed.
    AGAIN = "again"
    #: Counts.
    TIMED = "timed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """One block as the parent's clocks saw it.

    Attributes:
        start: number of the first input.
        prepared_ns: CPU time of the unit before GO: what making the inputs cost.
        waited_ns: wall time spent neither running nor waiting for a core, by the unit or by us.
        digest: of the outcomes of one cycle; empty for empty blocks.
        deferred_ns: CPU time of the unit between DONE and CHECKED: what encoding the kept outcomes cost.
        kept: outcomes that were encoded, those of the first cycle.
        preempted: involuntary switches away from the core.
        reads: read calls on files, those of the channel included.
        children: processes that the unit had started and not reaped at DONE.
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
    preempted: int = 0
    reads: int = 0
    children: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Round:
    """One fork of every arm onto one core.

    Attributes:
        layout: number of the set of processes that the units were forked from.
        core: the core, or -1 where arms are not pinned.
        blocks: in the order in which they ran.
        children_ns: by arm, CPU time that `wait4` knows of and the unit's own clock does not.
        void: why the round does not count; empty when it does. Never depends on which arm gained.
        wait4_ns: by arm, CPU time of the whole unit with the children that it reaped, as `wait4` knows it.
        peak_bytes: by arm, the unit's peak of resident memory beyond what it held when it was forked.
        start_ns: by arm, CPU time that its process of this layout needed to become ready.
        load: what else went on, by name (`quiet.LOADS`): pressure, preemptions, other load.
        unclean: arms whose units left something behind that a later unit could find.
    """

    number: int
    layout: int
    core: int
    blocks: tuple[Block, ...]
    children_ns: Mapping[str, int] = field(default_factory=dict)
    void: str = ""
    wait4_ns: Mapping[str, int] = field(default_factory=dict)
    peak_bytes: Mapping[str, int] = field(default_factory=dict)
    start_ns: Mapping[str, int] = field(default_factory=dict)
    load: Mapping[str, float] = field(default_factory=dict)
    unclean: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Track:
    """Log-ratios of one arm, one for each counted round, in total and by group.

    Attributes:
        clock: that they are from.
        deferred_ns: work beside the clock, before or after it, that was charged to the arm, per call.
        is_uneven: the arm does in some blocks what it puts off in others.
    """

    total: tuple[float, ...]
    groups: tuple[tuple[float, ...], ...]
    clock: Clock
    deferred_ns: float = 0.0
    is_uneven: bool = False


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
    """What a block without calls costs: it is taken off every other block."""

    cpu_ns: float = 0.0
    wall_ns: float = 0.0


def channel_cost(rounds: Sequence[Round]) -> ChannelCost:
    """Return what the channel to an arm costs a block, lower quartile.

    It is the baseline's for all arms. A candidate that burns time in its blocks without calls would gain by
    its own in all others; and what is taken off must not depend on who was first on a core that slept.
    """
    empty = list(blocks_of(rounds, BASELINE, BlockKind.EMPTY))
    return ChannelCost(
        cpu_ns=_low([block.cpu_ns for block in empty]), wall_ns=_low([block.wall_ns for block in empty])
    )


def net_ns(block: Block, cost: ChannelCost, clock: Clock) -> float:
    """Return a block's time on one clock without the channel's."""
    gross = block.cpu_ns - cost.cpu_ns if clock is Clock.CPU else block.wall_ns - cost.wall_ns
    return max(gross, LEAST_NS)


def clock_of(rounds: Sequence[Round], arm: str) -> Clock:
    """Return the clock that decides for an arm: CPU, unless children worked or the work is waiting."""
    usual_ns = _idle_ns(rounds, BASELINE, BlockKind.TIMED)
    channel_ns = _idle_ns(rounds, BASELINE, BlockKind.EMPTY)
    more_ns = _idle_ns(rounds, arm, BlockKind.TIMED) - usual_ns
    if _waits(rounds, BASELINE, usual_ns - channel_ns) or _waits(rounds, arm, more_ns):
        return Clock.WALL
    return Clock.WALL if _has_children(rounds, arm) else Clock.CPU


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


def track(rounds: Sequence[Round], arm: str, plan: RacePlan, clock: Clock | None = None) -> Track:
    """Return the log-ratios of an arm over the rounds that count and that it took part in.

    Args:
        rounds: of one race.
        arm: id.
        plan: for the groups and their weights.
        clock: `None`: the one that decides for this arm.
    """
    counted = [r for r in rounds if not r.void]
    taken = [r for r in counted if any(b.arm == arm and b.kind is BlockKind.TIMED for b in r.blocks)]
    used = clock or clock_of(taken, arm)
    cost = channel_cost(counted)
    lanes = [_lane(taken, arm, group, used, cost) for group in range(len(plan.groups))]
    rows = [list(row) for row in zip(*(lane.log_ratios for lane in lanes), strict=True)]
    charges = [lane.charge_ns for lane in lanes]
    return Track(
        total=tuple(pooled(row, plan) for row in rows),
        groups=tuple(lane.log_ratios for lane in lanes),
        clock=used,
        deferred_ns=sum(share * charge for share, charge in zip(weights(plan.groups), charges, strict=True)),
        is_uneven=any(lane.is_uneven for lane in lanes),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Lane:
    """What one group of an arm comes to.

    Attributes:
        log_ratios: one for each round.
        charge_ns: work beside the clock that is charged to each call.
        is_uneven: its log-ratios are those of means.
    """

    log_ratios: tuple[float, ...]
    charge_ns: float
    is_uneven: bool


def _lane(rounds: Sequence[Round], arm: str, group: int, clock: Clock, cost: ChannelCost) -> _Lane:
    charge = deferred_ns(rounds, arm, group) + prepared_ns(rounds, arm, group)
    pairs = [_pairs(round_, arm, group, clock, cost, charge) for round_ in rounds]
    uneven = is_uneven(pairs)
    value = _of_means if uneven else _of_medians
    return _Lane(log_ratios=tuple(map(value, pairs)), charge_ns=charge, is_uneven=uneven)


class Pair(NamedTuple):
    """Nanoseconds per call of a baseline block and of the arm's block next to it."""

    base: float
    own: float


def _of_medians(pairs: Sequence[Pair]) -> float:
    return median(log(pair.base / pair.own) for pair in pairs)


def _of_means(pairs: Sequence[Pair]) -> float:
    return log(fmean(pair.base for pair in pairs) / fmean(pair.own for pair in pairs))


def is_uneven(rounds: Sequence[Sequence[Pair]]) -> bool:
    """Return whether an arm's blocks surely differ among themselves, more than the baseline's do.

    A median does not see work that is done in fewer than half of the blocks. Every round begins with a fresh
    fork, so that such an arm does it in every round.
    """
    excess = [_skew([pair.own for pair in pairs]) - _skew([pair.base for pair in pairs]) for pairs in rounds]
    return Evidence(excess).above(log1p(UNEVEN_SHARE)) * UNEVEN_ERROR >= 1


def _skew(values: Sequence[float]) -> float:
    return log(fmean(values) / median(values))


def deferred_ns(rounds: Sequence[Round], arm: str, group: int) -> float:
    """Return the CPU time that an arm defers to after the clock, per call; 0 unless it surely does.

    Encoding equal outcomes costs all arms the same, unless some of the work is left to it.
    """
    pairs = [
        (own, base)
        for round_ in rounds
        if (own := _checking_ns(round_, arm, group)) is not None
        and (base := _checking_ns(round_, BASELINE, group)) is not None
    ]
    shares = Evidence([log(max(own, LEAST_NS) / max(base, LEAST_NS)) for own, base in pairs])
    if shares.above(log1p(DEFERRED_SHARE)) * DEFERRED_ERROR < 1:
        return 0.0
    excess_ns = median(own - base for own, base in pairs)
    return excess_ns if excess_ns > DEFERRED_NS else 0.0


def _checking_ns(round_: Round, arm: str, group: int) -> float | None:
    """Return what encoding one outcome cost after a round's timed blocks; `None` where none was kept."""
    blocks = [b for b in blocks_of([round_], arm, BlockKind.TIMED, group) if b.kept]
    return sum(b.deferred_ns for b in blocks) / sum(b.kept for b in blocks) if blocks else None


def prepared_ns(rounds: Sequence[Round], arm: str, group: int) -> float:
    """Return the CPU time that an arm spends on inputs before the clock, per call; 0 unless it surely does.

    Inputs are made by code of the project (`__reduce__`, `__setstate__`), to which work can be moved.
    """
    pairs = [(_making_ns(r, arm, group), _making_ns(r, BASELINE, group)) for r in rounds]
    shares = Evidence([log(max(own, LEAST_NS) / max(base, LEAST_NS)) for own, base in pairs])
    if shares.above(log1p(PREPARED_SHARE)) * DEFERRED_ERROR < 1:
        return 0.0
    excess_ns = median(own - base for own, base in pairs)
    return excess_ns if excess_ns > PREPARED_NS else 0.0


def _making_ns(round_: Round, arm: str, group: int) -> float:
    """Return what making the inputs of one call cost before a round's timed blocks, median of the blocks."""
    blocks = blocks_of([round_], arm, BlockKind.TIMED, group)
    return median([b.prepared_ns / b.calls for b in blocks] or [0.0])


def pooled(log_ratios: Sequence[float], plan: RacePlan) -> float:
    """Return the log of baseline time over candidate time of the whole workload, from those of its groups."""
    shares = weights(plan.groups)
    return -log(sum(share * exp(-ratio) for share, ratio in zip(shares, log_ratios, strict=True)))


def _pairs(round_: Round, arm: str, group: int, clock: Clock, cost: ChannelCost, charge: float) -> list[Pair]:
    """Return an arm's blocks with a baseline block each; `charge` is what each of its calls owes beside."""
    pairs = []
    for order in _orders(round_, arm, group):
        baseline = {at: block for at, block in enumerate(order) if block.arm == BASELINE}
        for at, block in enumerate(order):
            if block.arm == arm:
                near = baseline[min(baseline, key=lambda place: abs(place - at))]
                base = net_ns(near, cost, clock) / near.calls
                pairs.append(Pair(base, net_ns(block, cost, clock) / block.calls + charge))
    return pairs


def _orders(round_: Round, arm: str, group: int) -> Iterator[Sequence[Block]]:
    """Yield a group's timed blocks, a palindrome (or half of one, where that was all) at a time.

    Whoever was lost on the way has no blocks at all, so that all have one length.
    """
    timed = [b for b in round_.blocks if b.kind is BlockKind.TIMED and b.group == group]
    count = max(1, sum(block.arm == arm for block in timed) // 2)
    size = len(timed) // count
    for number in range(count):
        yield timed[number * size : (number + 1) * size]
