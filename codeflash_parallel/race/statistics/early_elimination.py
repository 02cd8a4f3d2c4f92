"""Cutting the field while a race goes on: time is better spent on few. It costs power only. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, log1p, sqrt

from codeflash_parallel.race.plan import RacePlan, RaceStage
from codeflash_parallel.race.statistics.confidence_sequence import SequentialEvidence
from codeflash_parallel.race.statistics.log_ratios import ArmLogRatios
from codeflash_parallel.race.statistics.power_analysis import unit_sd

#: Rounds after which the faster half of a large field stays, and a quarter: time is better spent on few. So
#: many stay at least; where work is dear one does.
HALVED_AFTER, QUARTERED_AFTER = 3, 6
LEAST_HALF, LEAST_QUARTER = 4, 2

#: By so many standard errors an arm seems to be faster that is not cut, since it will be decided soon.
PLAINLY_FASTER = 3.0


def behind(
    living: Sequence[str], tracks: Mapping[str, ArmLogRatios], plan: RacePlan, candidates: int
) -> list[str]:
    """Return who leaves when the field is cut; those who plainly are faster only where work is dear.

    Args:
        living: who is still timed.
        tracks: of all of them.
        plan: the rules.
        candidates: how many started.
    """
    rounds = max((len(tracks[c].total) for c in living), default=0)
    stay = places(plan, candidates, rounds)
    last = sorted(living, key=lambda c: -_centre(tracks[c]))[stay:]
    return [c for c in last if plan.dear or not _is_plainly_faster(tracks[c], plan)]


def _is_plainly_faster(track: ArmLogRatios, plan: RacePlan) -> bool:
    if not track.total:  # it came to wait when only rounds of all at once had been held
        return False
    error = unit_sd(track) / sqrt(len(track.total))
    return _centre(track) - PLAINLY_FASTER * error > log1p(plan.min_speedup)


def _centre(track: ArmLogRatios) -> float:
    return SequentialEvidence(track.total).centre()


def places(plan: RacePlan, candidates: int, rounds: int) -> int:
    """Return how many candidates may stay after some rounds of a race; in a confirmation all.

    Source: successive halving (Karnin, Koren and Somekh 2013), with fixed moments. It costs power only.
    """
    if plan.stage is RaceStage.CONFIRMATION:
        return candidates
    if rounds < HALVED_AFTER:
        return candidates
    if rounds < QUARTERED_AFTER:
        return max(1 if plan.dear else LEAST_HALF, ceil(candidates / 2))
    return 1 if plan.dear else max(LEAST_QUARTER, ceil(candidates / 4))
