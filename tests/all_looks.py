"""All looks at a race, taken again from its rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from codeflash_parallel.race.interim_analysis import after_round
from codeflash_parallel.race.measurement import Round
from codeflash_parallel.race.plan import RacePlan
from codeflash_parallel.race.race_result import Disqualification
from codeflash_parallel.race.statistics.sequential_test import InterimState


def judge(
    rounds: Sequence[Round], candidates: Sequence[str], plan: RacePlan, out: Mapping[str, Disqualification]
) -> InterimState:
    """Return the state after the last look; `plan` is the one that the race ended with (`Raced.plan`)."""
    state = InterimState(candidates=tuple(candidates))
    for number in range(1, len(rounds) + 1):
        state = after_round(state, rounds[:number], plan, out)
    return state
