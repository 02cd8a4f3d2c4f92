"""Gains that a guard doubts. Pure: looks at what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from statistics import median

from codeflash_parallel.benchmark.decide import Interval, interval
from codeflash_parallel.benchmark.plan import BASELINE
from codeflash_parallel.benchmark.raced import Raced
from codeflash_parallel.benchmark.samples import (
    Block,
    BlockKind,
    ChannelCost,
    Clock,
    channel_cost,
    net_ns,
    track,
)

#: Hot gains up to this are not doubted: a cache that pays less is not worth the doubt.
HOT_GAIN = log(1.5)

#: Share of the hot saving that the first, cold pass over the inputs must show as well.
COLD_SHARE = 0.4

#: Savings per pass below this drown in what a fork costs a process's first steps (copied pages).
LEAST_SAVING_NS = 200_000

#: Gains beyond this are doubted unless even the cold pass gains `ABSURD_COLD`.
ABSURD_GAIN = log(50)
ABSURD_COLD = 5.0

#: Error of a doubt.
DOUBT_ALPHA = 0.01


def suspicion(raced: Raced, arm: str, bound: Interval) -> str:
    """Return why an arm's gain is doubted, one clause; empty when it is not."""
    if bound.median > HOT_GAIN and _is_cached(raced, arm):
        return "cache: later passes over the same inputs are faster, the first one is not"
    if bound.median > ABSURD_GAIN and not _cold_gain(raced, arm) > ABSURD_COLD:
        return "a gain beyond 50 that the first, cold pass over the inputs does not show"
    if raced.tracks[arm].clock is Clock.CPU and _wall_contradicts(raced, arm):
        return "faster on the CPU clock, slower on the wall clock"
    return ""


def _wall_contradicts(raced: Raced, arm: str) -> bool:
    wall = track(raced.rounds, arm, raced.plan, Clock.WALL)
    return interval(wall.total, DOUBT_ALPHA).high < 0


def _is_cached(raced: Raced, arm: str) -> bool:
    cold, hot = _savings(raced, arm)
    if not hot or median(hot) < LEAST_SAVING_NS:
        return False
    # Medians, not bounds: an honest gain saves all of it in the cold pass too, a cache nothing.
    return median(cold) < COLD_SHARE * median(hot)


def _savings(raced: Raced, arm: str) -> tuple[list[float], list[float]]:
    """Return, for every round with cold passes, what the arm saved in the cold pass and in a later one."""
    clock = raced.tracks[arm].clock
    costs = {name: channel_cost(raced.rounds, name) for name in (arm, BASELINE)}
    cold, hot = [], []
    for round_ in raced.rounds:
        first = {name: _passes(round_.blocks, name, BlockKind.COLD, costs[name], clock) for name in costs}
        later = {name: _passes(round_.blocks, name, BlockKind.TIMED, costs[name], clock) for name in costs}
        if first[arm] and later[arm]:
            cold.append(sum(first[BASELINE].values()) - sum(first[arm].values()))
            cycles = _cycles(round_.blocks)
            hot.append(sum((later[BASELINE][g] - later[arm][g]) * cycles[g] for g in cycles))
    return cold, hot


def _passes(
    blocks: Sequence[Block], arm: str, kind: BlockKind, cost: ChannelCost, clock: Clock
) -> dict[int, float]:
    """Return nanoseconds by group: of the pass for cold blocks, of one call for timed blocks."""
    found: dict[int, list[float]] = {}
    for block in blocks:
        if block.arm == arm and block.kind is kind:
            per = block.calls if kind is BlockKind.TIMED else 1
            found.setdefault(block.group, []).append(net_ns(block, cost, clock) / per)
    return {group: sum(values) / len(values) for group, values in found.items()}


def _cycles(blocks: Sequence[Block]) -> dict[int, int]:
    return {block.group: block.calls for block in blocks if block.kind is BlockKind.COLD}


def _cold_gain(raced: Raced, arm: str) -> float:
    """Return the median ratio of cold passes; without any, timed ones are cold and agree with themselves."""
    costs = {name: channel_cost(raced.rounds, name) for name in (arm, BASELINE)}
    clock = raced.tracks[arm].clock
    gains = []
    for round_ in raced.rounds:
        base = _passes(round_.blocks, BASELINE, BlockKind.COLD, costs[BASELINE], clock)
        own = _passes(round_.blocks, arm, BlockKind.COLD, costs[arm], clock)
        if own:
            gains.append(sum(base.values()) / sum(own.values()))
    return median(gains) if gains else float("inf")
