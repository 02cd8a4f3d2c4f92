"""A race whose outcome is known beforehand, for tests of what comes before and after one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from math import log
from random import Random

from codeflash_parallel.benchmark.decide import Looks, look
from codeflash_parallel.benchmark.plan import NULL, RacePlan
from codeflash_parallel.benchmark.raced import Raced
from codeflash_parallel.benchmark.samples import Clock
from codeflash_parallel.benchmark.tracks import Track
from codeflash_parallel.engine.ledger import Entry


def simulated(truth: Mapping[str, float]) -> Callable[..., Awaitable[Raced]]:
    """Return a race of candidates with these speedups, without any noise to speak of."""

    async def race(
        _context: object, _workload: object, entries: Sequence[Entry], plan: RacePlan, *_rest: object
    ) -> Raced:
        random = Random(len(entries))
        rounds = plan.max_rounds
        arms = {e.id: [log(truth[e.id]) + random.gauss(0, 0.005) for _ in range(rounds)] for e in entries}
        state = look(
            Looks(candidates=tuple(arms)),
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


def track(values: list[float], plan: RacePlan) -> Track:
    groups = tuple(tuple(values) for _ in plan.groups)
    return Track(total=tuple(values), groups=groups, clock=Clock.CPU)
