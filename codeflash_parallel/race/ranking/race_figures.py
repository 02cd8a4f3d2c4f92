"""Figures of each candidate and of the races as a whole, for reports. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from statistics import median
from typing import Any

from codeflash_parallel.race.guards import cpu_per_call
from codeflash_parallel.race.measurement import (
    BlockKind,
    ChannelCost,
    DecidingClock,
    Round,
    blocks_of,
    channel_cost,
    net_ns,
    without_line,
)
from codeflash_parallel.race.plan import BASELINE, NULL, WorkKind, weights
from codeflash_parallel.race.race_result import Raced, RaceOutcome
from codeflash_parallel.race.statistics.confidence_sequence import SequentialEvidence, bounds
from codeflash_parallel.race.statistics.log_ratios import track
from codeflash_parallel.race.statistics.sequential_test import ArmStanding, speedup, unit_sd
from codeflash_parallel.result.result_model import MAX_IDS, RaceFigures, Speedup

#: Nanoseconds in a second.
SECOND = 1e9

#: Work of which a call is one call of a function: there is a throughput.
_COUNTED = frozenset({WorkKind.CALLS, WorkKind.CALLABLE})

#: What a standing that ended an arm's race means, one clause.
_DROPPED = {
    ArmStanding.FUTILE: "not faster by as much as is worth finding",
    ArmStanding.HOPELESS: "slower in its first rounds",
    ArmStanding.REGRESSES: "slower than allowed in a group of tests",
    ArmStanding.BEATEN: "another candidate is faster",
    ArmStanding.BEHIND: "others were ahead when the field was cut to save time",
}


def figures(outcomes: Sequence[RaceOutcome], candidate: str) -> RaceFigures | None:
    """Return what the last of some races measured of a candidate; `None` when it was in none.

    Args:
        outcomes: races and confirmations, in the order in which they were held.
        candidate: its id.
    """
    held = [raced for raced in outcomes if isinstance(raced, Raced) and candidate in raced.tracks]
    if not held or not held[-1].tracks[candidate].total:
        return None
    raced = held[-1]
    rate, baseline_rate = _calls_per_s(raced, candidate), _calls_per_s(raced, BASELINE)
    return RaceFigures(
        stage=raced.plan.stage.value,
        rounds=len(raced.tracks[candidate].total),
        dropped=_dropped(raced, candidate),
        dropped_after=raced.looks.dropped_after.get(candidate, 0),
        cpu=_cpu(raced, candidate),
        wall=_on(raced, candidate, DecidingClock.WALL),
        seen=_gain(raced.tracks[candidate].total),
        unseen=_gain(raced.tracks[candidate].unseen),
        peak_bytes=_peak(raced, candidate),
        baseline_peak_bytes=_peak(raced, BASELINE),
        calls_per_s=rate,
        baseline_calls_per_s=baseline_rate,
    )


def _dropped(raced: Raced, candidate: str) -> str:
    if candidate in raced.out:
        return raced.out[candidate].reason
    return _DROPPED.get(raced.standing(candidate), "")


def _cpu(raced: Raced, candidate: str) -> Speedup | None:
    """Return the speedup in CPU time; where the wall clock decides, that of units with all their children.

    What children use is not on the clock of a block: a candidate that hands its work to them would seem to
    use next to nothing.
    """
    if raced.tracks[candidate].clock is DecidingClock.CPU:
        return _on(raced, candidate, DecidingClock.CPU)
    counted = [round_ for round_ in raced.rounds if not round_.void]
    pairs = [(cpu_per_call(r, BASELINE), cpu_per_call(r, candidate)) for r in counted]
    gains = [log(base / own) for base, own in pairs if base and own]
    return speedup(bounds(gains, raced.error), DecidingClock.CPU, raced.plan.stage)


def _on(raced: Raced, candidate: str, clock: DecidingClock) -> Speedup | None:
    found = track(raced.rounds, candidate, raced.plan, clock)
    return speedup(bounds(found.total, raced.error), clock, raced.plan.stage)


def _gain(log_ratios: Sequence[float]) -> float | None:
    return exp(SequentialEvidence(log_ratios).centre()) if log_ratios else None


def _peak(raced: Raced, arm: str) -> int:
    return max((round_.peak_bytes.get(arm, 0) for round_ in raced.rounds), default=0)


def _calls_per_s(raced: Raced, arm: str) -> float | None:
    """Return an arm's throughput on the wall clock in a pass over the calls, by the median of each group."""
    if raced.plan.work not in _COUNTED:
        return None
    cost = channel_cost(raced.rounds)
    rounds = [without_line(round_) for round_ in raced.rounds if not round_.void]
    counts = [max(1, len(group.calls)) for group in raced.plan.groups]
    per_call = [_usual_ns(rounds, arm, group, cost) for group in range(len(counts))]
    if not all(per_call):
        return None
    return SECOND * sum(counts) / sum(n * ns for n, ns in zip(counts, per_call, strict=True))


def _usual_ns(rounds: Sequence[Round], arm: str, group: int, cost: ChannelCost) -> float:
    """Return the wall time of one call of a group, median over the timed blocks; 0 without any."""
    timed = blocks_of(rounds, arm, BlockKind.TIMED, group)
    return median([net_ns(block, cost, DecidingClock.WALL) / block.calls for block in timed] or [0.0])


def summary(outcomes: Sequence[RaceOutcome]) -> dict[str, Any]:
    """Return what is said of the races of a run, as `RunResult.race` has it; empty without a race."""
    held = [raced for raced in outcomes if isinstance(raced, Raced)]
    if not held:
        return {}
    rounds = [round_ for raced in held for round_ in raced.rounds]
    return {
        "workload": held[0].plan.work.value,
        "rounds": len(rounds),
        "void": sum(bool(round_.void) for round_ in rounds),
        "seconds": sum(raced.wall_ns for raced in held) / SECOND,
        "budget_s": held[0].plan.budget_ns / SECOND,
        "unit_sd": _unit_sd(held[0]),
        "groups": [
            {"group": group.name, "share": share, "tests": list(group.tests[:MAX_IDS])}
            for group, share in zip(held[0].plan.groups, weights(held[0].plan.groups), strict=True)
        ],
    }


def _unit_sd(raced: Raced) -> float | None:
    """Return the spread of one round: of the second baseline, or else of the quietest candidate."""
    null = [raced.tracks[NULL]] if NULL in raced.tracks and raced.tracks[NULL].total else []
    timed = null or [found for found in raced.tracks.values() if len(found.total) > 1]
    return min((unit_sd(found) for found in timed), default=None)
