"""Whole races with real processes: the witnesses of what was drawn from records."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from calibration.campaigns import Campaign, concluded
from calibration.work import Course
from codeflash_parallel.race.plan import Arm, RacePlan
from codeflash_parallel.race.race import race
from codeflash_parallel.race.race_result import RaceOutcome
from codeflash_parallel.race.ranking.arm_comparison import confirmation_of, contenders, left_of, race_of
from codeflash_parallel.race.ranking.candidate_ranking import rank


class Contest:
    """Arms with known speedups on one course, raced as often as one likes."""

    def __init__(self, course: Course, baseline: Arm, arms: Mapping[str, Arm], plan: RacePlan) -> None:
        self._course, self._plan = course, plan
        self._baseline, self._arms = baseline, arms

    @classmethod
    async def on(cls, course: Course, gains: Mapping[str, float]) -> Contest:
        """Make the arms and capture the baseline's calls."""
        baseline = course.arm("base")
        arms = {name: course.arm(name, gain) for name, gain in gains.items()}
        return cls(course, baseline, arms, await course.capture(baseline))

    async def hold(self, gains: Mapping[str, float], random: Random) -> Campaign:
        """Race, confirm and rank."""
        races = [await self._race([*gains], race_of(self._plan), random)]
        confirmations: list[RaceOutcome] = []
        while ids := contenders(races, confirmations, self._plan, limit=len(gains)):
            again = confirmation_of(races, confirmations, left_of(self._plan, [*races, *confirmations]), ids)
            confirmations.append(await self._race(ids, again, random))
        ranking = rank(races, confirmations, self._plan, {})
        work = self._course.work
        true = {name: work.true_gain(gain) for name, gain in gains.items()}
        return concluded(true, ranking, [*races, *confirmations])

    async def _race(self, ids: list[str] | tuple[str, ...], plan: RacePlan, random: Random) -> RaceOutcome:
        chosen = [self._arms[name] for name in ids]
        return await race(self._course.bench, self._baseline, chosen, plan, random=random)
