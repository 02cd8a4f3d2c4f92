"""Rounds of identical arms, recorded through the real runner, from which campaigns are drawn again.

One sitting is what a race does between two starts of its processes: a layout with all arms, as the race has
it, and then layouts of two rounds with few arms, as the confirmation has them. Nothing is decided meanwhile,
so that no arm is dropped. Sittings are kept in the format of a run's own records.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from calibration.kept import Kept
from calibration.work import Course
from codeflash_parallel.process.machine import read_machine
from codeflash_parallel.race.measurement import Round, judged, may_run_together
from codeflash_parallel.race.plan import BASELINE, Arm, RacePlan, RaceStage
from codeflash_parallel.race.race import HASH_SEEDS
from codeflash_parallel.race.race_result import Raced
from codeflash_parallel.race.round import RoundContext, calibrate, run_round
from codeflash_parallel.race.statistics.sequential_test import InterimState
from codeflash_parallel.race.worker.arm_pool import open_field
from codeflash_parallel.result.codec import from_plain, to_plain

#: Candidates of a campaign at most.
RACING = 8

#: A leader, one that ties with it, and one that stands in for the null arm.
CONFIRMING = 3

#: Such layouts in a sitting: with as many rounds as the layout with all arms has.
CONFIRMATIONS = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """What is recorded together: one work, some tests, and how many processes work in the background."""

    work: str
    tests: int
    workers: int

    @property
    def name(self) -> str:
        return f"{self.work}-{self.tests}-{self.workers}"

    @classmethod
    def named(cls, name: str) -> Cell:
        """Return the cell of a name."""
        work, tests, workers = name.rsplit("-", 2)
        return cls(work=work, tests=int(tests), workers=int(workers))


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """The rounds between two starts of processes.

    Attributes:
        wall_s: of the whole layout, the start of its processes included.
        load: the host's load average at its start.
    """

    raced: Raced
    wall_s: float
    load: float


class Traces:
    """The layouts of all cells, in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def cells(self) -> list[Cell]:
        """Return the cells of which both stages have been recorded."""
        found = [
            path.name.split(".")[0] for path in sorted(self._folder.glob(f"*.{RaceStage.CONFIRMATION}.*"))
        ]
        return [Cell.named(name) for name in found]

    def seconds(self, cell: Cell) -> float:
        """Return how long a cell has been recorded for."""
        return sum(line["wall_s"] for stage in RaceStage for line in self._kept(cell, stage))

    def add(self, cell: Cell, layout: Layout) -> None:
        """Keep one more layout."""
        stage = layout.raced.plan.stage
        record = to_plain(layout.raced)
        self._kept(cell, stage).add({"wall_s": layout.wall_s, "load": layout.load, "record": record})

    def layouts(self, cell: Cell, stage: RaceStage) -> list[Layout]:
        """Return what was recorded of a cell at one stage."""
        found = []
        for line in self._kept(cell, stage):
            raced: Raced = from_plain(Raced, line["record"])
            found.append(Layout(raced=raced, wall_s=line["wall_s"], load=line["load"]))
        return found

    def _kept(self, cell: Cell, stage: RaceStage) -> Kept:
        return Kept(self._folder / f"{cell.name}.{stage}.jsonl")


class Recorder:
    """Records sittings of one course."""

    def __init__(self, course: Course, baseline: Arm, arms: Sequence[Arm], plan: RacePlan) -> None:
        self._course, self._plan = course, plan
        self._baseline, self._arms = baseline, arms
        self._first: tuple[Round, ...] = ()

    @classmethod
    async def on(cls, course: Course) -> Recorder:
        """Make the arms of a course and capture its calls."""
        baseline = course.arm(BASELINE)
        arms = [course.arm(f"arm{number}") for number in range(RACING)]
        return cls(course, baseline, arms, await course.capture(baseline))

    async def sit(self, random: Random) -> list[Layout]:
        """Record one layout of the race and some of the confirmation."""
        if not self._first:
            # A race's first round tells how the others are run; it is like none of them, and not kept.
            once = replace(self._plan, layout_rounds=1)
            self._first = (await self._layout(once, self._arms, (), random)).raced.rounds
        again = self._plan.confirmation(self._plan.budget_ns)
        layouts = [await self._layout(self._plan, self._arms, self._first, random)]
        confirmed = [*self._first]
        for _ in range(CONFIRMATIONS):
            layout = await self._layout(again, self._arms[:CONFIRMING], confirmed, random)
            confirmed.extend(layout.raced.rounds)
            layouts.append(layout)
        return layouts

    async def _layout(
        self, plan: RacePlan, arms: Sequence[Arm], earlier: Sequence[Round], random: Random
    ) -> Layout:
        """Record one layout; what its rounds are like depends on those before it, as in a race."""
        began, load = time.perf_counter_ns(), os.getloadavg()[0]
        rounds = [*earlier]
        bench, hash_seed = self._course.bench, random.randrange(HASH_SEEDS)
        async with open_field(bench, [self._baseline, *arms], plan, hash_seed) as field:
            scales = await calibrate(field, plan, random.choice(plan.cores))
            layout = len(earlier)
            for number in range(layout, layout + plan.layout_rounds):
                core = random.choice(plan.cores)
                free_bytes = read_machine().memory_bytes
                together = may_run_together(rounds, field.templates.keys(), plan, free_bytes)
                place = RoundContext(
                    number=number, layout=layout, core=core, stage=plan.stage, together=together
                )
                rounds.append(judged(rounds, await run_round(field, scales, place, random)))
            if field.lost:
                raise SystemExit(f"Arms were lost: {field.lost}")
        wall_ns = time.perf_counter_ns() - began
        is_dear = plan.stage is RaceStage.RACE and any(scale.is_lean for scale in scales)
        raced = Raced(
            plan=replace(plan, dear=is_dear),
            candidates=tuple(arm.id for arm in arms),
            rounds=tuple(rounds[len(earlier) :]),
            tracks={},
            looks=InterimState(candidates=()),
            out={},
            wall_ns=wall_ns,
            round_ns=wall_ns // plan.layout_rounds,
            stopped="recorded",
        )
        return Layout(raced=raced, wall_s=wall_ns / 1e9, load=load)
