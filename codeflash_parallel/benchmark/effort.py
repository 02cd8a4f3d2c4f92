"""How much of the next round is timed, by the rounds before it alone. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from statistics import median

from codeflash_parallel.benchmark.decide import MAD_TO_SD
from codeflash_parallel.benchmark.plan import RacePlan
from codeflash_parallel.benchmark.samples import Round, track

#: Rounds that tell how noisy it is, the last ones; fewer than these tell nothing.
RECENT = 8
LEAST = 4

#: A gain (or loss) of so many times the spread of a round needs no better look.
CLEAR = 4.0


class Effort(StrEnum):
    """How much of a round is timed."""

    #: One palindrome of each group.
    QUICK = "quick"
    #: As many as `Scale.palindromes` says.
    THOROUGH = "thorough"


def effort(rounds: Sequence[Round], arms: Sequence[str], plan: RacePlan) -> Effort:
    """Return how thorough the next round should be: more so where an arm's gain drowns in the noise.

    Args:
        rounds: of one race so far.
        arms: the candidates that are still timed.
        plan: the rules.
    """
    recent = [round_ for round_ in rounds if not round_.void][-RECENT:]
    drowns = any(_drowns(track(recent, arm, plan).total) for arm in arms)
    return Effort.THOROUGH if drowns else Effort.QUICK


def _drowns(gains: Sequence[float]) -> bool:
    if len(gains) < LEAST:
        return False
    centre = median(gains)
    return abs(centre) < CLEAR * MAD_TO_SD * median(abs(gain - centre) for gain in gains)
