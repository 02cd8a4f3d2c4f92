"""The looks at a race, one after every round. Pure.

An arm that left for a reason other than its speed is taken out before the look at the round in which it left,
so that the same rounds and departures always give the same state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from codeflash_parallel.race.measurement import Round
from codeflash_parallel.race.plan import NULL, RacePlan, RaceStage
from codeflash_parallel.race.race_result import Disqualification
from codeflash_parallel.race.statistics.held_out_inputs import claimed
from codeflash_parallel.race.statistics.log_ratios import track
from codeflash_parallel.race.statistics.sequential_test import ArmStanding, InterimState, drop, look


def after_round(
    state: InterimState, rounds: Sequence[Round], plan: RacePlan, out: Mapping[str, Disqualification]
) -> InterimState:
    """Return the state after the last of some rounds.

    Args:
        state: after the round before.
        rounds: all so far, void ones included.
        plan: the rules.
        out: arms that left for a reason other than their speed; one that leaves in a later round is still
            looked at.
    """
    if state.decided:
        return state
    null = (NULL,) if plan.stage is RaceStage.CONFIRMATION else ()
    found = {arm: track(rounds, arm, plan) for arm in (*state.living, *null)}
    tracks = {arm: claimed(found, arm, plan) for arm in state.living}
    left = [arm for arm, why in out.items() if why.left_in <= len(rounds)]
    state = drop(state, left, ArmStanding.OUT, {arm: len(found.total) for arm, found in tracks.items()})
    return state if state.decided else look(state, tracks, plan)
