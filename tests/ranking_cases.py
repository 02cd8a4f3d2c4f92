"""Simulated races for tests of the ranking."""

from __future__ import annotations

from dataclasses import replace
from math import log
from random import Random

from codeflash_parallel.race.measurement import DecidingClock
from codeflash_parallel.race.plan import NULL, CostGroup, RacePlan
from codeflash_parallel.race.race_result import Disqualification, Raced
from codeflash_parallel.race.statistics.log_ratios import ArmLogRatios, claimed
from codeflash_parallel.race.statistics.sequential_test import ArmStanding, InterimState, drop, look
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code

PLAN = RacePlan(groups=(CostGroup(name="all", ns=1),))
CONFIRM = PLAN.confirmation(10**9)


def single(values):
    return ArmLogRatios(total=tuple(values), groups=(tuple(values),), clock=DecidingClock.CPU)


def twinned(values, share):
    """A track in which a share of each gain is there on unseen inputs."""
    unseen = tuple(value + log(share) for value in values)
    return replace(single(values), known=tuple(values), unseen=unseen)


def standing(arm, its):
    return InterimState(candidates=(arm,), standings={arm: its})


def held(gains, plan=PLAN, *, sd=0.01, seed=0, out=(), null=0.0, rounds=(), unseen=None):
    """Hold a simulated race of arms with these true speedups, and those on unseen inputs."""
    random = Random(seed)
    values = {a: [] for a in gains}
    state = drop(InterimState(candidates=tuple(gains)), out, ArmStanding.OUT, {})

    def tracks():
        if unseen is None:
            return {a: single(v) for a, v in values.items()}
        return {a: twinned(v, unseen.get(a, gains[a]) / gains[a]) for a, v in values.items()}

    while not state.decided and max(map(len, values.values())) < plan.max_rounds:
        shared = random.gauss(0, sd)
        for arm in state.living:
            values[arm].append(log(gains[arm]) + shared + random.gauss(0, sd))
        state = look(state, {a: claimed(tracks(), a, plan) for a in state.living}, plan)
    known = {}
    if plan.stage is CONFIRM.stage:
        known = {NULL: single([null + random.gauss(0, sd) for _ in range(24)])}
    return Raced(
        plan=plan, candidates=tuple(gains), rounds=rounds, tracks=tracks() | known, looks=state,
        out={a: Disqualification(status=CandidateStatus.REJECTED, code=Code.NOT_CONFIRMED, reason="wrong") for a in out},
        wall_ns=10**9, round_ns=10**8, stopped="enough",
    )  # fmt: skip
