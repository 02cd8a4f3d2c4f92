"""Decisions of a gate: the benchmarks that a change makes slower, many of them controlled together. Pure.

Three statements are tested of every benchmark, by one e-process each (see `confidence_sequence`): it is
surely more than `max_regression` slower, surely less than that, surely faster than `min_speedup`. Of each
statement the benchmarks for which it holds are chosen by e-BH: of K e-values, sorted from the largest, the
first k are believed, where k is the largest number with e_(k) >= K / (k * alpha). Of those that are believed
at most a share of alpha is wrong on average, whatever the benchmarks have to do with each other; where
nothing is true, nothing is believed but in a share of alpha. The mean of all benchmarks is one more
comparison, with a fifth of alpha.

A value is the median of one set of processes, not of one round: a benchmark may be fast in one process and
slow in the next for as long as each lives, and rounds of one set are no independent witnesses of that.

Sources: Wang and Ramdas, "False discovery rate control with e-values" (2022); Vovk and Wang, "E-values:
calibration, combination and applications" (2021).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import log1p
from statistics import fmean, median

from codeflash_parallel.race.measurement import BlockKind, DecidingClock, Round, clock_of, counting
from codeflash_parallel.race.plan import RacePlan
from codeflash_parallel.race.statistics.confidence_sequence import Interval, SequentialEvidence
from codeflash_parallel.race.statistics.log_ratios import track


class Change(StrEnum):
    """Change of a benchmark's speed."""

    #: Surely faster, by more than `min_speedup`.
    FASTER = "faster"
    #: Surely less than `max_regression` slower.
    NOT_SLOWER = "not_slower"
    #: Surely more than `max_regression` slower.
    SLOWER = "slower"
    #: Nothing of that is sure.
    TOO_NOISY = "too_noisy"


#: Error of each bound of an interval: it holds the true value at all looks in 95 % of gates.
BOUND_ALPHA = 0.025

#: Part of alpha that the mean of all benchmarks has: it scatters less, and needs less evidence.
TOTAL_SHARE = 0.2

#: What seems to be faster by so many times `min_speedup` is timed on until that is sure.
WORTH_KNOWING = 2.0


@dataclass(frozen=True, kw_only=True, slots=True)
class GateRules:
    """Rules of a gate.

    Attributes:
        max_regression: slowdown that is red, as a fraction.
        min_speedup: smallest gain that is called one, as a fraction.
        confidence: of each of the three statements, over all benchmarks and looks.
    """

    max_regression: float = 0.02
    min_speedup: float = 0.01
    confidence: float = 0.99


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """State of knowledge after a look.

    Attributes:
        changes: of each benchmark.
        total: of their mean.
        verdict: of the gate.
        is_final: more rounds would not change what is said.
    """

    changes: tuple[Change, ...]
    total: Change
    verdict: Change
    is_final: bool


def believed(evidence: Sequence[float], alpha: float) -> frozenset[int]:
    """Return the places of the e-values that are believed by e-BH."""
    ranked = sorted(range(len(evidence)), key=lambda place: -evidence[place])
    enough = [n for n, place in enumerate(ranked, 1) if evidence[place] * n * alpha >= len(evidence)]
    return frozenset(ranked[: max(enough, default=0)])


def decide(lanes: Sequence[Mapping[int, float]], rules: GateRules) -> Decision:
    """Return what is known of some benchmarks.

    Args:
        lanes: log-ratios of each benchmark by set of processes, above zero where it is faster.
        rules: of the gate.
    """
    alpha, alone = 1 - rules.confidence, len(lanes) == 1
    evidence = [SequentialEvidence([*lane.values()]) for lane in lanes]
    changes = _changes(evidence, alpha if alone else alpha * (1 - TOTAL_SHARE), rules)
    whole, total = evidence[:1], changes[:1]
    if not alone:
        whole = [SequentialEvidence(means(lanes))]
        total = _changes(whole, alpha * TOTAL_SHARE, rules)
    pairs = zip((*evidence, *whole), (*changes, *total), strict=True)
    is_final = not any(_is_open(one, change, rules) for one, change in pairs)
    return Decision(changes=changes, total=total[0], verdict=overall(changes, total[0]), is_final=is_final)


def _changes(evidence: Sequence[SequentialEvidence], alpha: float, rules: GateRules) -> tuple[Change, ...]:
    allowed, gain = -log1p(rules.max_regression), log1p(rules.min_speedup)
    slower = believed([one.below(allowed) for one in evidence], alpha)
    not_slower = believed([one.above(allowed) for one in evidence], alpha)
    faster = believed([one.above(gain) for one in evidence], alpha)
    words = ((slower, Change.SLOWER), (faster, Change.FASTER), (not_slower, Change.NOT_SLOWER))
    return tuple(
        next((change for places, change in words if place in places), Change.TOO_NOISY)
        for place in range(len(evidence))
    )


def overall(changes: Collection[Change], total: Change) -> Change:
    """Return the verdict of a gate: one slowdown is enough, and nothing is green that is not sure."""
    if Change.SLOWER in {*changes, total}:
        return Change.SLOWER
    if not changes or Change.TOO_NOISY in changes:
        return Change.TOO_NOISY
    return Change.FASTER if total is Change.FASTER else Change.NOT_SLOWER


def _is_open(evidence: SequentialEvidence, change: Change, rules: GateRules) -> bool:
    if change is Change.NOT_SLOWER:
        return evidence.centre() > log1p(WORTH_KNOWING * rules.min_speedup)
    return change is Change.TOO_NOISY


def interval(values: Sequence[float]) -> Interval:
    """Return the estimate of a centre and its 95 % confidence sequence."""
    return SequentialEvidence(values).bounds(BOUND_ALPHA)


class BenchmarkRounds:
    """Rounds of a race taken apart by benchmark: each is read once, however many there are.

    Args:
        plan: has a group for each benchmark.
    """

    def __init__(self, plan: RacePlan) -> None:
        self._plans = [replace(plan, groups=(group,)) for group in plan.groups]
        self._parts: list[list[Round]] = [[] for _ in plan.groups]
        self._size = plan.layout_rounds

    def add(self, rounds: Sequence[Round]) -> None:
        """Take the rounds that are new.

        Args:
            rounds: all so far.
        """
        for round_ in rounds[len(self._parts[0]) :]:
            for group, parts in enumerate(self._parts):
                parts.append(_part_of(round_, group))

    @property
    def complete(self) -> frozenset[int]:
        """Sets of processes that have had all their rounds: none is to be looked at twice."""
        counts = Counter(round_.layout for round_ in self._parts[0])
        last = max(counts, default=0)
        return frozenset(layout for layout, n in counts.items() if layout < last or n >= self._size)

    def lanes(self, arm: str) -> list[dict[int, float]]:
        """Return the log-ratios of each benchmark of an arm, by set of processes."""
        complete = self.complete
        return [
            _lane([round_ for round_ in parts if round_.layout in complete], arm, plan)
            for parts, plan in zip(self._parts, self._plans, strict=True)
        ]

    def clocks(self, arm: str) -> list[DecidingClock]:
        """Return the clock that decides for each benchmark of an arm."""
        return [clock_of(_taken(parts, arm), arm) for parts in self._parts]


def means(lanes: Sequence[Mapping[int, float]]) -> list[float]:
    """Return the mean over all benchmarks of each set of processes that all of them have."""
    shared = sorted(set.intersection(*(set(lane) for lane in lanes))) if lanes else []
    return [fmean(lane[layout] for lane in lanes) for layout in shared]


def _part_of(round_: Round, group: int) -> Round:
    """Return a round with the blocks of one group, which is the first one now, and those without calls."""
    blocks = (
        block if block.kind is BlockKind.EMPTY else replace(block, group=0)
        for block in round_.blocks
        if block.kind is BlockKind.EMPTY or block.group == group
    )
    return replace(round_, blocks=tuple(blocks))


def _taken(rounds: Sequence[Round], arm: str) -> list[Round]:
    timed = [(r, {b.arm for b in r.blocks if b.kind is BlockKind.TIMED}) for r in rounds if not r.void]
    return [round_ for round_, arms in timed if arm in arms]


def _lane(rounds: Sequence[Round], arm: str, plan: RacePlan) -> dict[int, float]:
    taken = _taken(rounds, arm)
    clock = clock_of(taken, arm)
    kept = counting(taken, clock)
    found: dict[int, list[float]] = defaultdict(list)
    for round_, value in zip(kept, track(kept, arm, plan, clock).groups[0], strict=True):
        found[round_.layout].append(value)
    return {layout: median(values) for layout, values in found.items()}
