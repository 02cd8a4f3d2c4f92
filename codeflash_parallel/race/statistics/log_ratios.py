"""Tracks: what the rounds of an arm come to, as log-ratios to the baseline. Pure.

A round gives, per arm and group, blocks that each ran the same calls. Each block of an arm is set against the
one baseline block nearest to it in its palindrome; the median of the logarithms of these ratios is a round's
value, above zero where the arm is faster. One against one, because exchanging the two then exchanges the sign
and nothing else: without a true difference a round's value is as likely to be above zero as below, by any
amount. (A block of twins is set against the baseline's block of the same ones.) The median, because a block
now and then takes twice as long for reasons of the machine: it halves the spread of a round. An arm whose own
blocks differ (it does in some what others put off) gets the ratio of means instead.

Of gains on inputs that nobody has seen the lower of two figures counts (`claimed`). Every unit makes calls
that the tests make, again and again, and then a twin of each: other values of the same shape. Fast code is as
fast on twins. A table of answers, or a memo, is fast on inputs that it knows; it is no fault, but says
nothing about the next input, so that the figure on twins is its claim.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import exp, inf, log, log1p
from statistics import fmean, median
from typing import NamedTuple

from codeflash_parallel.race.measurement import (
    LEAST_NS,
    Block,
    BlockKind,
    ChannelCost,
    DecidingClock,
    Round,
    blocks_of,
    channel_cost,
    clock_of,
    counting,
    net_ns,
    without_line,
)
from codeflash_parallel.race.plan import BASELINE, NULL, RacePlan, RaceStage, WorkKind, weights
from codeflash_parallel.race.statistics.confidence_sequence import SequentialEvidence

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

#: Of a block of twins of the baseline so much at most is taken for what it costs beside its calls ...
COLD_SHARE = 0.2

#: ... unless it takes so many times as long as its calls: the project's own caches do not know twins either.
LONGEST_TWIN = 1.4


def deferred_ns(rounds: Sequence[Round], arm: str, group: int) -> float:
    """Return the CPU time that an arm defers to after the clock, per call; 0 unless it surely does.

    Encoding equal outcomes costs all arms the same, unless some of the work is left to it.
    """
    return _surely_more_ns(
        [_checking_ns(round_, group) for round_ in rounds], arm, DEFERRED_SHARE, DEFERRED_NS
    )


def _checking_ns(round_: Round, group: int) -> Mapping[str, float]:
    """Return, by arm, what encoding one outcome cost after a round's timed blocks, where any was kept."""
    timed = (b for b in round_.blocks if b.kind is BlockKind.TIMED and b.group == group and b.kept)
    return {
        arm: sum(b.deferred_ns for b in blocks) / sum(b.kept for b in blocks)
        for arm, blocks in _by_arm(timed).items()
    }


def prepared_ns(rounds: Sequence[Round], arm: str, group: int) -> float:
    """Return the CPU time that an arm spends on inputs before the clock, per call; 0 unless it surely does.

    Inputs are made by code of the project (`__reduce__`, `__setstate__`), to which work can be moved.
    """
    return _surely_more_ns(
        [_making_ns(round_, group, arm) for round_ in rounds], arm, PREPARED_SHARE, PREPARED_NS
    )


def _making_ns(round_: Round, group: int, arm: str) -> Mapping[str, float]:
    """Return, by arm, what making the inputs of one call cost before a round's timed blocks, median.

    Of blocks that hold as many calls as the arm's: where more are made at a time each costs less.
    """
    timed = [b for b in round_.blocks if b.kind in {BlockKind.TIMED, BlockKind.MANY} and b.group == group]
    sizes = {block.calls for block in timed if block.arm == arm}
    found = _by_arm(block for block in timed if block.calls in sizes)
    return {
        name: median(block.prepared_ns / block.calls for block in blocks) for name, blocks in found.items()
    }


def _by_arm(blocks: Iterable[Block]) -> Mapping[str, Sequence[Block]]:
    found: dict[str, list[Block]] = defaultdict(list)
    for block in blocks:
        found[block.arm].append(block)
    return found


def _surely_more_ns(costs: Sequence[Mapping[str, float]], arm: str, share: float, least_ns: float) -> float:
    """Return by what an arm's costs exceed those of its peer and of the baseline; 0 unless they surely do.

    The second baseline is charged nothing: it puts nothing off, and is colder than the first one, which has
    the core more often. Where candidates' blocks hold more calls it has no peer that would show that.

    Args:
        costs: of every round, by arm; arms that have none are absent.
        share: excess over the usual costs up to which nothing is said.
        least_ns: the same as nanoseconds.
    """
    if arm == NULL:
        return 0.0
    both = [found for found in costs if arm in found and BASELINE in found]
    peers = _peers(both, arm)
    pairs = [(found[arm], _usual_ns(found, peers)) for found in both]
    shares = SequentialEvidence([log(max(own, LEAST_NS) / max(usual, LEAST_NS)) for own, usual in pairs])
    if shares.above(log1p(share)) * DEFERRED_ERROR < 1:
        return 0.0
    excess_ns = median(own - usual for own, usual in pairs)
    return excess_ns if excess_ns > least_ns else 0.0


def _peers(costs: Sequence[Mapping[str, float]], arm: str) -> Sequence[str]:
    """Return the arms whose costs are usual for one that has turns as often: the one that tells most first.

    The baseline alone does not tell. Where many arms race it has the core more often than each of them,
    stays warm, and makes the same inputs in a fifth less time: equal arms were charged 2 to 3 % of their
    time. The second baseline tells, if it runs. Without one it is the other candidate with the least costs,
    as multiples of the baseline's in the same rounds: one honest one is enough to charge all that are not.
    When it has left the race, the next one takes its place; when all have, each has its turn as often as the
    baseline, which then tells.
    """
    others = set[str]().union(*costs) - {arm, BASELINE}
    return sorted(others, key=lambda other: (other != NULL, _share_of_usual(costs, other), other))


def _share_of_usual(costs: Sequence[Mapping[str, float]], arm: str) -> float:
    """Return an arm's costs as multiples of the baseline's in the same rounds, median."""
    return median(max(c[arm], LEAST_NS) / max(c[BASELINE], LEAST_NS) for c in costs if arm in c)


def _usual_ns(found: Mapping[str, float], peers: Sequence[str]) -> float:
    """Return what is usual in one round: the costs of the first peer that is in it, or the baseline's."""
    peer = next((peer for peer in peers if peer in found), BASELINE)
    return max(found[BASELINE], found[peer])


@dataclass(frozen=True, kw_only=True, slots=True)
class ArmLogRatios:
    """Log-ratios of one arm, one for each counted round, in total and by group.

    Attributes:
        clock: that they are from.
        deferred_ns: work beside the clock, before or after it, that was charged to the arm, per call.
        is_uneven: the arm does in some blocks what it puts off in others.
        calls_ns: what a call of the baseline takes, by group.
        unseen: like `total`, on inputs that nobody has seen; empty where there are none. Groups without such
            inputs are left out.
        known: the same of the tests' inputs, over the same groups.
    """

    total: tuple[float, ...]
    groups: tuple[tuple[float, ...], ...]
    clock: DecidingClock
    deferred_ns: float = 0.0
    is_uneven: bool = False
    calls_ns: tuple[float, ...] = ()
    unseen: tuple[float, ...] = ()
    known: tuple[float, ...] = ()


def track(
    rounds: Sequence[Round], arm: str, plan: RacePlan, clock: DecidingClock | None = None
) -> ArmLogRatios:
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
    asked_for_wall = clock is DecidingClock.WALL
    taken = [without_line(round_) for round_ in taken] if asked_for_wall else counting(taken, used)
    cost = channel_cost(counted)
    lanes = [_lane(taken, arm, group, used, cost) for group in range(len(plan.groups))]
    rows = [list(row) for row in zip(*(lane.log_ratios for lane in lanes), strict=True)]
    twinned = [group for group, of in enumerate(plan.groups) if of.twins]
    unseen = _part([lanes[group].unseen for group in twinned], plan, twinned)
    known = _part([lanes[group].log_ratios for group in twinned], plan, twinned)
    if plan.work is WorkKind.IN_PLACE:
        unseen, known = _first_passes(taken, arm, rows, plan, partial(net_ns, cost=cost, clock=used))
    charges = [lane.charge_ns for lane in lanes]
    return ArmLogRatios(
        total=tuple(pooled(row, plan) for row in rows),
        groups=tuple(lane.log_ratios for lane in lanes),
        clock=used,
        deferred_ns=sum(share * charge for share, charge in zip(weights(plan.groups), charges, strict=True)),
        is_uneven=any(lane.is_uneven for lane in lanes),
        calls_ns=tuple(lane.call_ns for lane in lanes),
        unseen=unseen,
        known=known,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Lane:
    """Log-ratio of one group of an arm.

    Attributes:
        log_ratios: one for each round.
        charge_ns: work beside the clock that is charged to each call.
        is_uneven: its log-ratios are those of means.
        call_ns: what a call of the baseline takes, median.
        unseen: like `log_ratios`, of twins, where the group has any.
    """

    log_ratios: tuple[float, ...]
    charge_ns: float
    is_uneven: bool
    call_ns: float
    unseen: tuple[float, ...]


def _lane(rounds: Sequence[Round], arm: str, group: int, clock: DecidingClock, cost: ChannelCost) -> _Lane:
    charge = deferred_ns(rounds, arm, group) + prepared_ns(rounds, arm, group)
    pairs = [_pairs(round_, arm, group, clock, cost, charge) for round_ in rounds]
    uneven = is_uneven(pairs)
    value = _of_means if uneven else _of_medians
    call_ns = median([pair.base for round_ in pairs for pair in round_] or [inf])
    log_ratios = tuple(map(value, pairs))
    net = partial(net_ns, cost=cost, clock=clock)
    cold_ns = _cold_ns(rounds, group, net)
    unseen = [
        _of_medians([_warmed(pair, calls * call_ns, cold_ns, known) for calls, pair in met])
        for round_, known in zip(rounds, log_ratios, strict=True)
        if (met := _twins(round_, arm, group, net))
    ]
    return _Lane(
        log_ratios=log_ratios, charge_ns=charge, is_uneven=uneven, call_ns=call_ns, unseen=tuple(unseen)
    )


#: Returns a block's time without what the channel costs.
Net = Callable[[Block], float]


class BlockPair(NamedTuple):
    """Nanoseconds per call of a baseline block and of the arm's block next to it."""

    base: float
    own: float


def _of_medians(pairs: Sequence[BlockPair]) -> float:
    return median(log(pair.base / pair.own) for pair in pairs)


def _of_means(pairs: Sequence[BlockPair]) -> float:
    return log(fmean(pair.base for pair in pairs) / fmean(pair.own for pair in pairs))


def is_uneven(rounds: Sequence[Sequence[BlockPair]]) -> bool:
    """Return whether an arm's blocks surely differ among themselves, more than the baseline's do.

    A median does not see work that is done in fewer than half of the blocks. Every round begins with a fresh
    fork, so that such an arm does it in every round.
    """
    excess = [_skew([pair.own for pair in pairs]) - _skew([pair.base for pair in pairs]) for pairs in rounds]
    return SequentialEvidence(excess).above(log1p(UNEVEN_SHARE)) * UNEVEN_ERROR >= 1


def _skew(values: Sequence[float]) -> float:
    return log(fmean(values) / median(values))


def _part(lanes: Sequence[Sequence[float]], plan: RacePlan, groups: Sequence[int]) -> tuple[float, ...]:
    """Return the log-ratios of some groups together."""
    part = replace(plan, groups=tuple(plan.groups[group] for group in groups))
    return tuple(pooled(row, part) for row in zip(*lanes, strict=True))


def pooled(log_ratios: Sequence[float], plan: RacePlan) -> float:
    """Return the log of baseline time over candidate time of the whole workload, from those of its groups."""
    shares = weights(plan.groups)
    return -log(sum(share * exp(-ratio) for share, ratio in zip(shares, log_ratios, strict=True)))


def _pairs(
    round_: Round, arm: str, group: int, clock: DecidingClock, cost: ChannelCost, charge: float
) -> list[BlockPair]:
    """Return an arm's blocks with a baseline block each; `charge` is what each of its calls owes beside."""
    pairs = []
    for order in _orders(round_, arm, group):
        baseline = {at: block for at, block in enumerate(order) if block.arm == BASELINE}
        for at, block in enumerate(order):
            if block.arm == arm:
                near = baseline[min(baseline, key=lambda place: abs(place - at))]
                base = net_ns(near, cost, clock) / near.calls
                pairs.append(BlockPair(base, net_ns(block, cost, clock) / block.calls + charge))
    return pairs


def _cold_ns(rounds: Sequence[Round], group: int, net: Net) -> float:
    """Return what a block of twins costs beside its calls, lower quartile: caches hold little of theirs.

    By the baseline's calls with known inputs, for all arms: short blocks would understate gains.
    """
    found = []
    for round_ in rounds:
        mine = [b for b in round_.blocks if b.arm == BASELINE and b.group == group]
        usual = [net(b) / b.calls for b in mine if b.kind is BlockKind.TIMED]
        known = [b for b in mine if b.kind is BlockKind.KNOWN]
        found += [net(b) - b.calls * median(usual) for b in known if usual]
    return max(0.0, sorted(found)[len(found) // 4]) if found else 0.0


def _twins(round_: Round, arm: str, group: int, net: Net) -> list[tuple[int, BlockPair]]:
    """Return an arm's blocks of twins: how many calls each holds, and its time beside the baseline's."""
    blocks = [b for b in round_.blocks if b.kind is BlockKind.TWIN and b.group == group]
    baseline = {b.start: net(b) for b in blocks if b.arm == BASELINE}
    return [(b.calls, BlockPair(baseline[b.start], net(b))) for b in blocks if b.arm == arm]


def _warmed(twins: BlockPair, usual_ns: float, cold_ns: float, known: float) -> BlockPair:
    """Return times on twins without what calls cost when their inputs come for the first time.

    Where the baseline takes much longer for twins than usually, the project keeps what it once found for an
    input (compiled patterns, say), and every arm pays for that. What an arm saves is then taken off the usual
    time, and is no more of it than what it saves there.

    Args:
        twins: times of two blocks.
        usual_ns: the baseline's time for as many calls with known inputs.
        cold_ns: what a block of twins costs beside its calls.
        known: the arm's log-ratio on known inputs.
    """
    base, own = twins
    if base > LONGEST_TWIN * usual_ns:
        gain = max(exp(known), base / own)
        return BlockPair(usual_ns, max(usual_ns - base + own, usual_ns / gain))
    cold = min(cold_ns, COLD_SHARE * base)
    return BlockPair(base - cold, max(own - cold, LEAST_NS))


def _first_passes(
    rounds: Sequence[Round], arm: str, rows: Sequence[Sequence[float]], plan: RacePlan, net: Net
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the log-ratios of first passes over calls in place, and of later ones over the same groups.

    There are no twins of calls inside tests. A first pass is one over inputs that the process has not seen: a
    memo saves nothing in it. What it saves is taken off the baseline's later passes, so that what all code
    pays when it is cold falls out; and the very first group of a round, in which things are made that stay
    (a compiled pattern), is left out where there are others.
    """
    unseen: list[float] = []
    known: list[float] = []
    for round_, row in zip(rounds, rows, strict=True):
        first = {b.group: net(b) / b.calls for b in blocks_of([round_], arm, BlockKind.FIRST)}
        base = {b.group: net(b) / b.calls for b in blocks_of([round_], BASELINE, BlockKind.FIRST)}
        groups = sorted([*first][len(first) > 1 :])
        ratios = []
        for group in groups:
            usual_ns = median(net(b) / b.calls for b in blocks_of([round_], BASELINE, BlockKind.TIMED, group))
            ratios.append(log(usual_ns / max(usual_ns - base[group] + first[group], LEAST_NS)))
        if groups:
            unseen += _part([[ratio] for ratio in ratios], plan, groups)
            known += _part([[row[group]] for group in groups], plan, groups)
    return tuple(unseen), tuple(known)


def _orders(round_: Round, arm: str, group: int) -> Iterator[Sequence[Block]]:
    """Yield a group's timed blocks, a palindrome (or half of one, where that was all) at a time.

    Whoever was lost on the way has no blocks at all, so that all have one length.
    """
    timed = [b for b in round_.blocks if b.kind is BlockKind.TIMED and b.group == group]
    count = max(1, sum(block.arm == arm for block in timed) // 2)
    size = len(timed) // count
    for number in range(count):
        yield timed[number * size : (number + 1) * size]


#: By so much a gain on seen inputs may exceed that on unseen ones in every round of a race, and on average in
#: a confirmation ...
SEEMING_EXCESS = log(1.1)
#: ... and from where on the race says that it is one on seen inputs only.
PLAIN_EXCESS = log(1.3)

#: And by what it surely exceeds it in a confirmation: twins are a little unlike their calls.
SURE_EXCESS = log1p(0.02)


def claimed(tracks: Mapping[str, ArmLogRatios], arm: str, plan: RacePlan) -> ArmLogRatios:
    """Return what an arm's claim is made from: its figures on unseen inputs, where those are the lower ones.

    Args:
        tracks: of a race; that of the second baseline, if there is one, tells whether twins can be trusted.
        arm: id.
        plan: the rules.
    """
    found = tracks[arm]
    exceeds = _exceeds(tracks, arm, plan, SEEMING_EXCESS) or _seems_to_exceed(tracks, arm, plan)
    return replace(found, total=found.unseen) if exceeds and not plan.count_repeats else found


def gains_only_seen(tracks: Mapping[str, ArmLogRatios], arm: str, plan: RacePlan) -> bool:
    """Return whether it can be said that some of an arm's gain is one on seen inputs only."""
    return not plan.count_repeats and _exceeds(tracks, arm, plan, PLAIN_EXCESS)


def _exceeds(tracks: Mapping[str, ArmLogRatios], arm: str, plan: RacePlan, seeming: float) -> bool:
    """Return whether a figure exceeds that on unseen inputs: in all rounds of a race, else surely."""
    if plan.stage is RaceStage.RACE:
        return min(_excess(tracks[arm]), default=0.0) > seeming
    return _is_sure(tracks[arm], plan) and not (NULL in tracks and _is_sure(tracks[NULL], plan))


def _seems_to_exceed(tracks: Mapping[str, ArmLogRatios], arm: str, plan: RacePlan) -> bool:
    """Return whether a confirmation's figure is the higher one on average, where twins can be trusted.

    Where rounds scatter, the excess of a memo that begins late is large and not sure.
    """
    trusted = NULL not in tracks or _mean_excess(tracks[NULL]) <= SEEMING_EXCESS
    return plan.stage is not RaceStage.RACE and trusted and _mean_excess(tracks[arm]) > SEEMING_EXCESS


def _mean_excess(found: ArmLogRatios) -> float:
    excess = _excess(found)
    return fmean(excess) if excess else 0.0


def _is_sure(found: ArmLogRatios, plan: RacePlan) -> bool:
    return SequentialEvidence(_excess(found)).above(SURE_EXCESS) * plan.giving_up >= 1


def _excess(found: ArmLogRatios) -> list[float]:
    return [known - unseen for known, unseen in zip(found.known, found.unseen, strict=True)]
