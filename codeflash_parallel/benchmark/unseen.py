"""Whether a gain holds on inputs that nobody has seen: which of two figures counts. Pure.

Every unit makes the calls that the tests make, again and again, and then a twin of each: other values of the
same shape. Fast code is as fast on twins. A table of answers, or a memo, is fast on inputs that it knows; it
is no fault, but says nothing about the next input, so that the figure on twins is its claim.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import log, log1p

from codeflash_parallel.benchmark.evidence import Evidence
from codeflash_parallel.benchmark.plan import NULL, RacePlan, RaceStage
from codeflash_parallel.benchmark.tracks import Track

#: What a gain on seen inputs may seem to exceed that on unseen ones by in a race, which claims nothing.
SEEMING_EXCESS = log(1.1)

#: And by what it surely exceeds it in a confirmation: twins are a little unlike their calls.
SURE_EXCESS = log1p(0.02)


def claimed(tracks: Mapping[str, Track], arm: str, plan: RacePlan) -> Track:
    """Return what an arm's claim is made from: its figures on unseen inputs, where those are the lower ones.

    Args:
        tracks: of a race; that of the second baseline, if there is one, tells whether twins can be trusted.
        arm: id.
        plan: the rules.
    """
    found = tracks[arm]
    return replace(found, total=found.unseen) if is_only_seen(tracks, arm, plan) else found


def is_only_seen(tracks: Mapping[str, Track], arm: str, plan: RacePlan) -> bool:
    """Return whether some of an arm's gain is one on seen inputs only: by its size in a race, else surely."""
    null = tracks.get(NULL)
    if plan.count_repeats or (null is not None and _exceeds(null, plan)):
        return False
    return _exceeds(tracks[arm], plan)


def _exceeds(found: Track, plan: RacePlan) -> bool:
    excess = Evidence([seen - unseen for seen, unseen in zip(found.known, found.unseen, strict=True)])
    if plan.stage is RaceStage.RACE:
        return excess.centre() > SEEMING_EXCESS
    return excess.above(SURE_EXCESS) * plan.giving_up >= 1
