"""The paired race: arms take turns on one core until enough is known or the budget is spent."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import exp
from random import Random
from statistics import median

import anyio

from codeflash_parallel.process.machine import read_machine
from codeflash_parallel.race.guards import misconduct, unstable_groups
from codeflash_parallel.race.measurement import Round, judged, may_run_together, void_note
from codeflash_parallel.race.plan import BASELINE, NULL, Arm, CostGroup, RacePlan, RaceStage
from codeflash_parallel.race.race_result import (
    ArmFailure,
    ArmWorkTimeout,
    Disqualification,
    RaceBudgetExceeded,
    Raced,
    RaceFailed,
    RaceOutcome,
    code_of,
    out_of,
)
from codeflash_parallel.race.round import (
    BlockScale,
    RoundContext,
    calibrate,
    for_sprint,
    predicted_ns,
    run_round,
)
from codeflash_parallel.race.statistics.log_ratios import ArmLogRatios, claimed, track
from codeflash_parallel.race.statistics.sequential_test import (
    SPRINT_ROUNDS,
    WHY_OUT,
    ArmStanding,
    InterimState,
    centre,
    drop,
    look,
    places,
    rounds_needed,
    visible_gain,
)
from codeflash_parallel.race.worker.arm_pool import ArmPool, ArmPoolPrestart, RaceEnvironment, start_field
from codeflash_parallel.race.worker.arm_worker import SECOND
from codeflash_parallel.result.candidate_model import CandidateId
from codeflash_parallel.result.events import RaceProgress
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code

#: Fewer rounds than this bound nothing at the default confidence; a race that cannot have them is not begun.
LEAST_ROUNDS = 8

#: Spread of one round's log-ratio that budgets are made for; seen on two shared cores.
USUAL_SD = 0.012

#: The null arm races as long as the usual number of rounds, with it, fits into this share of the budget.
NULL_SHARE = 0.5

#: A round ends by itself when the budget does, within one block. What else an arm may keep us waiting with (a
#: fork, copies of inputs, the encoding of outcomes) is cut so many seconds later.
LAST_BLOCK_S = 1.0

#: The next processes are started when so many rounds are left of a layout, where they need no more than this
#: share of the free memory.
ROUNDS_AHEAD, AHEAD_SHARE = 2, 0.25

#: Hash seeds are drawn below this (the interpreter takes 0 to 4294967295).
HASH_SEEDS = 2**32

Progress = Callable[[RaceProgress], None]


def after_round(
    state: InterimState, rounds: Sequence[Round], plan: RacePlan, out: Collection[str]
) -> InterimState:
    """Return the state after a look at the last of some rounds.

    Args:
        state: after the round before.
        rounds: all so far, void ones included.
        plan: the rules.
        out: arms that left for a reason other than their speed; they are not looked at any longer.
    """
    if state.decided:
        return state
    null = (NULL,) if plan.stage is RaceStage.CONFIRMATION else ()
    found = {arm: track(rounds, arm, plan) for arm in (*state.living, *null)}
    tracks = {arm: claimed(found, arm, plan) for arm in state.living}
    state = drop(state, out, ArmStanding.OUT, {arm: len(found.total) for arm, found in tracks.items()})
    return state if state.decided else look(state, tracks, plan)


@dataclass(frozen=True, slots=True)
class RaceJudge:
    """Decisions that are taken after every round; by default those of a run.

    Attributes:
        look: says who is timed on, and whether all is decided; see `after_round`.
        misconduct: names the arms that are out for what they did.
        by_layout: all rounds of a layout tell as much as one, and take as long as they take together.
    """

    look: Callable[[InterimState, Sequence[Round], RacePlan, Collection[str]], InterimState] = after_round
    misconduct: Callable[[Sequence[Round]], Mapping[str, Disqualification]] = misconduct
    by_layout: bool = False


async def race(
    bench: RaceEnvironment,
    baseline: Arm,
    candidates: Sequence[Arm],
    plan: RacePlan,
    *,
    random: Random,
    progress: Progress | None = None,
    run_id: str = "",
    judge: RaceJudge = RaceJudge(),
) -> RaceOutcome:
    """Race candidates against the baseline, all of them at once, and return everything that was measured.

    The caller sees to it that nothing else of ours runs meanwhile. An arm that dies, hangs or answers
    wrongly is out, with a reason, and the others race on. Cancelling kills every arm first.

    Args:
        bench: what arms are run with.
        baseline: its `id` is not used.
        candidates: each in its own workspace, staged.
        plan: the rules; `plan.confirmation(...)` for the second measurement.
        random: source of orders, cores and hash seeds.
        progress: called after every round.
        run_id: for `progress`.
        judge: decides.
    """
    held = _Race(bench, baseline, candidates, plan, random, judge)
    try:
        if candidates:
            await held.hold(lambda: progress(held.progress(run_id)) if progress else None)
    except ArmFailure as error:
        ids = tuple(arm.id for arm in candidates)
        reason = f"The baseline could not be timed: {error.reason}."
        return RaceFailed(candidates=ids, reason=reason, code=code_of(error))
    return held.outcome()


def _with_twins(group: CostGroup, loaded: int) -> CostGroup:
    """Return a group without its twins unless all of them could be loaded."""
    return group if loaded == sum(map(len, group.twins)) else replace(group, twins=())


class _Race:
    """The state of a race that is being held."""

    def __init__(
        self,
        bench: RaceEnvironment,
        baseline: Arm,
        candidates: Sequence[Arm],
        plan: RacePlan,
        random: Random,
        judge: RaceJudge,
    ) -> None:
        self._bench, self._judge = bench, judge
        self._plan = plan
        self._random = random
        self._arms = {arm.id: arm for arm in candidates}
        self._null = (NULL,) if plan.stage is RaceStage.CONFIRMATION else ()
        self._fixed = {name: replace(baseline, id=name) for name in (BASELINE, *self._null)}
        self._looks = InterimState(candidates=tuple(self._arms))
        self._scales: tuple[BlockScale, ...] = ()
        self._rounds: list[Round] = []
        self._round_ns: list[int] = []
        self._out: dict[str, Disqualification] = {}
        self._ahead: ArmPoolPrestart | None = None
        self._stopped = ""  # by the budget, and how
        self._lost_baseline = ""
        self._started_ns = self._mark_ns = time.perf_counter_ns()

    async def hold(self, told: Callable[[], None]) -> None:
        """Hold the race; what it starts ahead is ended.

        Raises:
            ArmFailure: the baseline is lost.
        """
        failed: ArmFailure | None = None
        async with anyio.create_task_group() as self._tasks:
            try:
                await self._hold_layouts(told)
            except ArmFailure as error:  # its own type, and not a group of it
                failed = error
            await self._drop_ahead()
        if failed is not None:
            raise failed

    async def _hold_layouts(self, told: Callable[[], None]) -> None:
        layout = 0
        while self._goes_on():
            try:
                await self._hold_anew(layout, told)
            except RaceBudgetExceeded:
                self._stopped = f"the budget was spent while processes were started, {self._so_far}"
            except ArmFailure as error:
                self._start_anew(error)
            self._spare_null()
            layout += 1

    def _start_anew(self, error: ArmFailure) -> None:
        """Continue with new processes after the baseline was lost, once: the machine may be the cause."""
        if self._lost_baseline:
            raise error
        self._lost_baseline = f"The baseline {error.reason}; new processes took over."
        self._mark_ns = time.perf_counter_ns()

    async def _hold_anew(self, layout: int, told: Callable[[], None]) -> None:
        """Start a process for every arm and hold the rounds of one layout.

        Raises:
            ArmFailure: the baseline is lost.
            RaceBudgetExceeded: the budget was spent before all were ready.
        """
        field = await self._started()
        try:
            self._take_lost(field)
            if BASELINE in field.lost:
                raise field.lost[BASELINE]
            await self._clear(field)
            await self._hold_layout(field, layout, told)
        finally:
            await field.close()

    async def _started(self) -> ArmPool:
        """Return processes of all who race, those that were started ahead if there are any."""
        ahead, self._ahead = self._ahead, None
        field = await ahead.take() if ahead is not None else None
        return await self._start() if field is None else field

    def _start(self) -> Awaitable[ArmPool]:
        arms = [*self._fixed.values(), *(self._arms[c] for c in self._timed)]
        seed, left_s = self._random.randrange(HASH_SEEDS), self._left_ns() / SECOND
        return start_field(self._bench, arms, self._plan, seed, left_s)

    def _start_ahead(self, field: ArmPool, rounds: int) -> None:
        """Start the next processes while the last rounds of a field are held, if they seem to be needed.

        What a start leaves in the arms' folders would be taken for the units', and be removed: that is why it
        is not done where these leave something, and why the processes are ended where both come together.

        Args:
            rounds: that are still to be held.
        """
        is_end = len(self._rounds) + rounds == self._plan.least_rounds
        if not self._plan.ahead or rounds != ROUNDS_AHEAD or is_end:
            return
        is_apart = not field.littered and not field.shares_memory
        if is_apart and field.rss_bytes() <= AHEAD_SHARE * read_machine().memory_bytes:
            self._ahead = ArmPoolPrestart(self._tasks, self._start)

    async def _drop_ahead(self) -> None:
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            await ahead.drop()

    async def _hold_layout(self, field: ArmPool, layout: int, told: Callable[[], None]) -> None:
        if not self._scales:
            await self._prepare(field)
        if not self._scales:
            return
        for number in range(self._plan.layout_rounds):
            if not self._goes_on():
                return
            self._start_ahead(field, self._plan.layout_rounds - number)
            round_ = await self._round(field, layout)
            if round_ is None:
                self._stopped = f"the budget was spent {self._so_far}"
                return
            self._rounds.append(judged(self._rounds, round_))
            # From mark to mark, so that the start of a layout's processes belongs to its first round.
            began, self._mark_ns = self._mark_ns, time.perf_counter_ns()
            self._round_ns.append(self._mark_ns - began)
            self._take_lost(field)
            self._take_wrong()
            await self._take_refused(field)
            self._looks = self._judge.look(self._looks, self._rounds, self._plan, self._out.keys())
            await self._clear(field)
            if field.littered:
                await self._drop_ahead()
            told()

    async def _round(self, field: ArmPool, layout: int) -> Round | None:
        """Hold one round; `None` if the budget ended and an arm keeps us waiting."""
        place = RoundContext(
            number=len(self._rounds),
            layout=layout,
            core=self._random.choice(self._plan.cores or (-1,)),
            stage=self._plan.stage,
            left_s=self._left_ns() / SECOND,
            together=self._may_run_together(field),
        )
        # Arms may share the core, so that one block takes as long as all of theirs.
        longest_s = len(field.templates) * max(s.block_ns + s.making_ns for s in self._scales) / SECOND
        is_sprint = self._plan.stage is RaceStage.RACE and place.number < SPRINT_ROUNDS
        scales = for_sprint(self._scales) if is_sprint else self._scales
        with anyio.move_on_after(place.left_s + longest_s + LAST_BLOCK_S):
            return await run_round(field, scales, place, self._random)
        return None

    def _may_run_together(self, field: ArmPool) -> bool:
        free_bytes = read_machine().memory_bytes
        return may_run_together(self._rounds, field.templates.keys(), self._plan, free_bytes)

    async def _prepare(self, field: ArmPool) -> None:
        """Find the size of blocks; leave the null arm out, or stop, where time does not suffice."""
        if not self._keep_loaded_groups(field):
            return
        await self._calibrate(field)
        if not self._scales:
            self._stopped = "the race was not begun: one pass over its work takes longer"
            return
        lean = any(scale.is_lean for scale in self._scales)
        if self._plan.stage is RaceStage.RACE and (lean or self._predicted_ns(self._usual) > self._left_ns()):
            self._plan = replace(self._plan, dear=True)
        if lean or self._usual * predicted_ns(self._scales, len(self._timed) + 1) > self._null_ns():
            self._fixed.pop(NULL, None)
            await self._clear(field)
        if self._predicted_ns(LEAST_ROUNDS) > self._left_ns():
            self._stopped = "the race was not begun"

    async def _calibrate(self, field: ArmPool) -> None:
        """Find the scales, unless the budget ends before that."""
        core, left_s = self._random.choice(self._plan.cores or (-1,)), self._left_ns() / SECOND
        with suppress(ArmWorkTimeout), anyio.move_on_after(left_s + LAST_BLOCK_S):
            self._scales = await calibrate(field, self._plan, core, left_s)

    def _predicted_ns(self, rounds: int) -> int:
        """Return about how long some rounds will take, with the field cut as planned."""
        fields = (places(self._plan, len(self._timed), number) for number in range(rounds))
        return sum(predicted_ns(self._scales, arms) for arms in fields)

    @property
    def _usual(self) -> int:
        """Rounds that decide a gain that should be visible, on a usual machine."""
        return rounds_needed(USUAL_SD, visible_gain(self._plan), self._plan, len(self._arms))

    def _null_ns(self) -> float:
        return NULL_SHARE * self._plan.budget_ns

    def _spare_null(self) -> None:
        """Leave the null arm out from now on where the starts of processes turn out to be too dear."""
        last = self._plan.layout_rounds if self._judge.by_layout else 1
        if self._round_ns and self._usual * sum(self._round_ns[-last:]) > self._null_ns():
            self._fixed.pop(NULL, None)

    def _keep_loaded_groups(self, field: ArmPool) -> bool:
        """Leave out groups of which the baseline could load nothing; the arms then start anew."""
        template = field.templates[BASELINE]
        sizes = zip(self._plan.groups, template.cycles, template.twins, strict=True)
        loaded = tuple(_with_twins(group, twins) for group, size, twins in sizes if size)
        if not loaded:
            raise ArmFailure("none of the work could be loaded")
        complete = loaded == self._plan.groups
        self._plan = replace(self._plan, groups=loaded)
        return complete

    def _left_ns(self) -> int:
        return self._plan.budget_ns - (time.perf_counter_ns() - self._started_ns)

    def _goes_on(self) -> bool:
        if self._stopped or self._looks.decided or not self._timed:
            return False
        if sum(not round_.void for round_ in self._rounds) >= self._plan.max_rounds:
            return False
        if self._rounds and self._round_ns[-1] > self._left_ns():
            self._stopped = f"the budget was spent {self._so_far}"
            return False
        return True

    @property
    def _timed(self) -> tuple[str, ...]:
        """The candidates that take part in the next round."""
        return tuple(arm for arm in self._looks.living if arm not in self._out)

    def _take_lost(self, field: ArmPool) -> None:
        """Take out who was lost in a round, or on the way to it."""
        for arm in self._timed:
            if arm in field.lost:
                self._out[arm] = out_of(field.lost[arm])

    def _take_wrong(self) -> None:
        timed = self._timed
        self._out.update(
            {arm: out for arm, out in self._judge.misconduct(self._rounds).items() if arm in timed}
        )

    async def _take_refused(self, field: ArmPool) -> None:
        """Take out the candidates of which the user's judge does not accept a result of this round."""
        results = [result for template in field.templates.values() for result in template.results]
        for template in field.templates.values():
            template.results.clear()
        mine = [result for result in results if result.arm in self._timed]
        refused = await self._bench.jury.refused(mine) if self._bench.jury and mine else {}
        for arm, why in refused.items():
            self._out[arm] = Disqualification(
                status=CandidateStatus.REJECTED, code=Code.NOT_ACCEPTED, reason=why
            )

    async def _clear(self, field: ArmPool) -> None:
        """Close the processes of arms that race no longer."""
        for arm in field.templates.keys() - {*self._timed} - self._fixed.keys():
            await field.templates.pop(arm).close()

    def progress(self, run_id: str) -> RaceProgress:
        """Return how the race stands, for observers."""
        found = {arm: track(self._rounds, arm, self._plan) for arm in self._timed}
        tracks = {arm: claimed(found, arm, self._plan) for arm in found}
        leader = max(tracks, key=lambda arm: centre(tracks[arm]), default=None)
        return RaceProgress(
            run_id=run_id,
            stage=self._plan.stage,
            rounds=len(self._rounds),
            most_rounds=self._plan.max_rounds,
            racing=len(tracks),
            leader=CandidateId(leader) if leader else None,
            speedup=exp(centre(tracks[leader])) if leader else 0.0,
            seconds_left=max(0.0, self._left_ns() / SECOND),
            out={CandidateId(arm): self._why_out(arm) for arm in self._arms if arm not in tracks},
        )

    def _why_out(self, arm: str) -> str:
        if arm in self._out:
            return self._out[arm].reason
        return WHY_OUT.get(self._looks.standing(arm), "it left")

    def outcome(self) -> Raced:
        return Raced(
            plan=self._plan,
            candidates=tuple(self._arms),
            rounds=tuple(self._rounds),
            tracks=self._tracks(),
            looks=self._looks,
            out=self._out,
            wall_ns=time.perf_counter_ns() - self._started_ns,
            round_ns=int(median(self._round_ns)) if self._round_ns else 0,
            stopped=self._stopped or self._ending(),
            needed_ns=self._needed_ns() if self._stopped else 0,
            notes=self._notes(),
        )

    def _needed_ns(self) -> int:
        """Return about what budget would do, twice this one at least, by what has been seen of the work."""
        if self._rounds:
            needed = self._usual * int(median(self._round_ns))
        elif self._scales:
            needed = self._predicted_ns(self._usual)
        else:
            needed = LEAST_ROUNDS * (len(self._arms) + 1) * self._plan.budget_ns
        return max(2 * self._plan.budget_ns, needed)

    def _ending(self) -> str:
        return f"decided {self._so_far}" if self._looks.decided else f"not decided {self._so_far}"

    @property
    def _so_far(self) -> str:
        count = len(self._rounds)
        return f"after {count} round{'' if count == 1 else 's'}"

    def _tracks(self) -> dict[str, ArmLogRatios]:
        return {arm: track(self._rounds, arm, self._plan) for arm in (*self._arms, *self._null)}

    def _notes(self) -> tuple[str, ...]:
        named = ", ".join(self._plan.groups[g].name for g in sorted(unstable_groups(self._rounds)))
        unstable = "Outcomes of timed calls were not compared where the baseline does not repeat them: "
        left_out = f"{unstable}{named}." if named else ""
        return tuple(filter(None, (left_out, void_note(self._rounds), self._lost_baseline)))
