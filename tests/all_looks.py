"""All looks at a race, taken again from its rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from codeflash_parallel.benchmark.decide import Looks
from codeflash_parallel.benchmark.plan import RacePlan
from codeflash_parallel.benchmark.raced import Out
from codeflash_parallel.benchmark.referee import after_round
from codeflash_parallel.benchmark.samples import Round


def judge(
    rounds: Sequence[Round], candidates: Sequence[str], plan: RacePlan, out: Mapping[str, Out]
) -> Looks:
    """Return the state after the last look; `plan` is the one that the race ended with (`Raced.plan`)."""
    state = Looks(candidates=tuple(candidates))
    for number in range(1, len(rounds) + 1):
        state = after_round(state, rounds[:number], plan, out)
    return state
