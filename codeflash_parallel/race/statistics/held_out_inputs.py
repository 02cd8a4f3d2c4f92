"""Gains on inputs that nobody has seen: the lower of two figures counts. Pure.

Every unit makes the calls that the tests make, again and again, and then a twin of each: other values of the
same shape. Fast code is as fast on twins. A table of answers, or a memo, is fast on inputs that it knows; it
is no fault, but says nothing about the next input, so that the figure on twins is its claim.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import log, log1p
from statistics import fmean

from codeflash_parallel.race.plan import NULL, RacePlan, RaceStage
from codeflash_parallel.race.statistics.confidence_sequence import SequentialEvidence
from codeflash_parallel.race.statistics.log_ratios import ArmLogRatios

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
