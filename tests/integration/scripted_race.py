"""A race whose outcome is known beforehand, for tests of what comes before and after one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from math import log
from random import Random

from codeflash_parallel.race.measurement import DecidingClock
from codeflash_parallel.race.plan import NULL, RacePlan
from codeflash_parallel.race.race_result import Raced
from codeflash_parallel.race.statistics.log_ratios import ArmLogRatios
from codeflash_parallel.race.statistics.sequential_test import InterimState, look
from codeflash_parallel.run.ledger import CandidateEntry


def simulated(truth: Mapping[str, float]) -> Callable[..., Awaitable[Raced]]:
    """Return a race of candidates with these speedups, without any noise to speak of."""

    async def race(
        _context: object, _workload: object, entries: Sequence[CandidateEntry], plan: RacePlan, *_rest: object
    ) -> Raced:
        random = Random(len(entries))
        rounds = plan.max_rounds
        arms = {e.id: [log(truth[e.id]) + random.gauss(0, 0.005) for _ in range(rounds)] for e in entries}
        state = look(
            InterimState(candidates=tuple(arms)),
            {a: track(v, plan) for a, v in arms.items()},
            plan,
        )
        tracks = {a: track(v, plan) for a, v in arms.items()}
        tracks[NULL] = track([random.gauss(0, 0.005) for _ in range(rounds)], plan)
        return Raced(
            plan=plan,
            candidates=tuple(arms),
            rounds=(),
            tracks=tracks,
            looks=state,
            out={},
            wall_ns=10**9,
            round_ns=10**8,
            stopped="enough",
        )

    return race


def track(values: list[float], plan: RacePlan) -> ArmLogRatios:
    groups = tuple(tuple(values) for _ in plan.groups)
    return ArmLogRatios(total=tuple(values), groups=groups, clock=DecidingClock.CPU)
