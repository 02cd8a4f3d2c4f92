"""The looks at a race, one after every round. Pure; the live race and a replay of its record both ask here.

An arm that left for a reason other than its speed is taken out before the look at the round in which it left,
so that the same rounds and departures always give the same state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from codeflash_parallel.benchmark.decide import Looks, Standing, drop, look
from codeflash_parallel.benchmark.plan import RacePlan
from codeflash_parallel.benchmark.raced import Out
from codeflash_parallel.benchmark.samples import Round
from codeflash_parallel.benchmark.tracks import track


def judge(
    rounds: Sequence[Round], candidates: Sequence[str], plan: RacePlan, out: Mapping[str, Out]
) -> Looks:
    """Take all looks again, in order.

    Args:
        rounds: of one race, void ones included.
        candidates: all that started.
        plan: as the race ended with it (`Raced.plan`).
        out: who left for a reason other than its speed, and in which round.
    """
    state = Looks(candidates=tuple(candidates))
    for number in range(1, len(rounds) + 1):
        state = after_round(state, rounds[:number], plan, out)
    return state


def after_round(state: Looks, rounds: Sequence[Round], plan: RacePlan, out: Mapping[str, Out]) -> Looks:
    """Return the state after the last of some rounds.

    Args:
        state: after the round before.
        rounds: all so far.
        plan: the rules.
        out: as for `judge`; those who leave in later rounds are not looked at yet.
    """
    if state.decided:
        return state
    tracks = {arm: track(rounds, arm, plan) for arm in state.living}
    left = [arm for arm, why in out.items() if why.left_in <= len(rounds)]
    state = drop(state, left, Standing.OUT, {arm: len(found.total) for arm, found in tracks.items()})
    return state if state.decided else look(state, tracks, plan)
