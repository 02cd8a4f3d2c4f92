"""One run, from candidates to a result: the order of things."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from codeflash_parallel import __version__
from codeflash_parallel.behavior.plan import CheckPlan
from codeflash_parallel.behavior.session import Guest
from codeflash_parallel.benchmark.figures import summary as race_summary
from codeflash_parallel.benchmark.record import RunRecord
from codeflash_parallel.engine.admission import Admission, Asked
from codeflash_parallel.engine.agreeing import agreed_terms
from codeflash_parallel.engine.behavior_phase import BehaviorPhase
from codeflash_parallel.engine.chronicle import Chronicle
from codeflash_parallel.engine.clock import Clock
from codeflash_parallel.engine.conclusion import conclusion, finish_all
from codeflash_parallel.engine.context import Announcer, RunContext
from codeflash_parallel.engine.drafting import Drafting
from codeflash_parallel.engine.fleet import Fleet
from codeflash_parallel.engine.happened import Ending
from codeflash_parallel.engine.journal import Journal
from codeflash_parallel.engine.judging import Judging
from codeflash_parallel.engine.kills import Kills
from codeflash_parallel.engine.ledger import Entry, Ledger, copied_from_originals, summed
from codeflash_parallel.engine.policies import load_policy
from codeflash_parallel.engine.preflight import Depth
from codeflash_parallel.engine.providing import Providers, Providing, open_providing
from codeflash_parallel.engine.race_phase import RaceFinding, hold_race
from codeflash_parallel.engine.remembering import Remembering
from codeflash_parallel.engine.sources import Entries, entered, entering, peek
from codeflash_parallel.engine.store import save_run
from codeflash_parallel.engine.surroundings import Surroundings
from codeflash_parallel.engine.targets import derived_targets, named_targets
from codeflash_parallel.engine.workload import Workload, choose_workload
from codeflash_parallel.model.candidate import CandidateId, Submission
from codeflash_parallel.model.events import Observer, PhaseStarted, RunFinished, RunStarted
from codeflash_parallel.model.lifecycle import Stage
from codeflash_parallel.model.outcome import Code, Level, Status, Verdict
from codeflash_parallel.model.result import CandidateResult, Fault, RunResult
from codeflash_parallel.model.settings import Compare
from codeflash_parallel.model.target import Target
from codeflash_parallel.worktrees.git import load_reader
from codeflash_parallel.worktrees.pool import Pool
from codeflash_parallel.worktrees.snapshot import Snapshot

Source = AsyncIterable[Submission] | Iterable[Submission]


class Run:
    """Makes one run. `evaluate` is called once."""

    def __init__(
        self,
        *,
        surroundings: Surroundings,
        run_id: str,
        providers: Providers,
        observers: Sequence[Observer],
        races: bool,
        journal: Journal,
        profiles: bool = True,
    ) -> None:
        self._around = surroundings
        self._settings = surroundings.settings
        self._run_id = run_id
        self._run_dir = surroundings.run_dir(run_id)
        self._providers = providers
        self._races = races
        self._profiles = profiles
        self._journal = journal
        self._ending = Ending.FINISHED
        self._announce = Announcer.of(observers)
        self._ledger = Ledger(run_id, self._announce)
        self._chronicle = Chronicle(journal, surroundings, self._ledger, self._run_dir)
        self._policy = load_policy(surroundings.settings.ranking, self._ledger.warn)
        self._announce.on_dropped = self._ledger.warn
        self._clock = Clock()
        self._scope = anyio.CancelScope()
        self._interrupted = ""
        self._context: RunContext | None = None
        self._finding = RaceFinding()
        self._why = ""
        # Seeds come from the run's id, so that a run can be repeated by naming its seed.
        self._seed = self._settings.seed or zlib.crc32(run_id.encode()) or 1

    @property
    def folder(self) -> Path:
        """Return where everything about the run is kept."""
        return self._run_dir

    def interrupt(self, code: str) -> None:
        """Stop: kill what runs, keep what is finished."""
        self._interrupted = self._interrupted or code
        self._scope.cancel()

    async def evaluate(self, source: Source) -> RunResult:
        """Judge every candidate of the source.

        Args:
            source: of a run that goes on: the candidates that it had.

        Raises:
            UsageError, EnvironmentFault: the run could not be made.
        """
        self._announce(RunStarted(run_id=self._run_id, slots=self._around.size))
        entries = await self._entered(source)
        if isinstance(source, Sequence) and not source:
            return await self._finish(self._result(Verdict.NONE_CORRECT, "There is no candidate."))
        with self._scope:
            await self._within_budget(entries)
        if self._interrupted:
            return await self._finish(self._incomplete())
        return await self._finish(self._judged())

    async def _entered(self, source: Source) -> Entries:
        """Enter what is there; what is still being produced is entered as it arrives."""
        there = [self._ledger.add(one) for one in source] if isinstance(source, Sequence) else None
        begun = {"run_id": self._run_id, "races": self._races, "seed": self._seed}
        await self._chronicle.begin(begun, self._providers, there)
        if there is not None:
            return there
        if isinstance(source, AsyncIterable):
            return entering(self._chronicle.enter, source, self._chronicle.all_entered)
        return entered(self._chronicle.enter, source, self._chronicle.all_entered)

    async def _within_budget(self, source: Entries) -> None:
        budget_s = self._settings.wall_budget or float("inf")
        with anyio.move_on_after(budget_s) as scope:
            await self._go(source)
        if scope.cancelled_caught:
            self._ending = Ending.BUDGET
            self._ledger.warn(
                f"The wall budget of {budget_s:g} s was spent. "
                f"`codeflash-parallel resume {self._run_id}` goes on with the run."
            )

    async def _go(self, source: Entries) -> None:
        self._phase("snapshot")
        async with self._around.quiet.shared(), anyio.create_task_group() as group:
            group.start_soon(self._around.compile_guest)
            group.start_soon(anyio.to_thread.run_sync, load_reader)
            snapshot = await self._chronicle.snapshot()
            source, targets = await self._targets(source, snapshot)
            pool = await self._around.pool(snapshot, self._chronicle.owner)
        for warning in pool.warnings:
            self._ledger.warn(warning)
        self._clock.lap("snapshot")
        self._phase("baseline")
        guest = self._around.guest(targets, snapshot, self._seed)
        prepared = self._chronicle.stand_on(self._around.ground(guest, snapshot))
        drafting = Drafting(
            self._around.mirror,
            snapshot,
            targets,
            self._around.interpreter,
            prepared,
        )
        async with self._around.quiet.shared():
            plan, fleet = await self._baseline(guest, snapshot, pool, source, drafting)
        for warning in plan.baseline.warnings:
            self._ledger.warn(warning)
        self._clock.lap("baseline")
        self._context = RunContext(
            run_id=self._run_id,
            run_dir=self._run_dir,
            settings=self._settings,
            runner=self._around.launcher,
            mirror=self._around.mirror,
            snapshot=snapshot,
            pool=pool,
            interpreter=self._around.interpreter,
            targets=targets,
            plan=plan,
            fleet=fleet,
            memory_bytes=self._around.memory_bytes,
            free_bytes=self._around.free_bytes,
            cores=self._around.cores,
            seed=self._seed,
            recorder=self._chronicle.recorder(self._run_record()),
            journal=self._journal,
            quiet=self._around.quiet,
        )
        async with open_providing(self._providers, self._context, self._ledger) as providing:
            await self._rounds(self._context, source, providing, drafting)

    def _run_record(self) -> RunRecord:
        return RunRecord(
            run_id=self._run_id, seed=self._seed, policy=self._settings.ranking, version=__version__
        )

    async def _baseline(
        self, guest: Guest, snapshot: Snapshot, pool: Pool, source: Entries, drafting: Drafting
    ) -> tuple[CheckPlan, Fleet]:
        """Find out what the baseline does, and make candidates of what is there meanwhile."""
        there = source[: self._settings.max_candidates or None] if isinstance(source, Sequence) else ()
        expected = len(there) if isinstance(source, Sequence) else self._around.size
        async with anyio.create_task_group() as group:
            group.start_soon(drafting.ahead, there)
            found = await self._around.baseline(guest, snapshot, pool, expected, self._depth)
            group.cancel_scope.cancel()
        return found

    @property
    def _depth(self) -> Depth:
        calls = self._races or self._settings.compare is Compare.VALUES
        return Depth.CALLS if calls else Depth.OUTCOMES

    async def _targets(self, source: Entries, snapshot: Snapshot) -> tuple[Entries, tuple[Target, ...]]:
        """Return the targets, and the source with whatever was taken from it to find them put back."""
        mirror = self._around.mirror
        if self._settings.functions:
            return source, named_targets(mirror, snapshot, self._settings.functions)
        seen, source = await peek(source)
        return source, await derived_targets(mirror, snapshot, [entry.submission for entry in seen])

    async def _rounds(
        self, context: RunContext, source: Entries, providing: Providing, drafting: Drafting
    ) -> None:
        """Behavior, race, refinement, and again while refinements bring candidates."""
        judging = Remembering(Judging(context), self._journal)
        kills = await anyio.to_thread.run_sync(Kills.load, self._around.home, context.targets)
        asked = Asked.EVERYBODY if self._races else Asked.WHO_REACH_OUT
        admission = Admission(context.plan, self._ledger, judging, asked)
        behavior = BehaviorPhase(
            context, self._ledger, drafting, judging, admission, providing, kills, self._journal
        )
        workload = await self._workload(context) if self._races else None
        rounds = 0
        while True:
            self._phase("behavior")
            try:
                await behavior.run(source)
            finally:
                kills.save()
            await admission.admit(self._newly_passed())
            self._clock.lap("behavior")
            if workload is None or not self._newly_passed():
                return
            async with context.quiet.shared():
                await context.fleet.close()
                await self._around.share_bytecode(context.plan, context.pool)
            terms = await agreed_terms(context, workload, self._policy, rounds)
            rounds += 1
            self._phase("race", terms.summary)
            self._finding = await hold_race(context, self._ledger, terms, self._finding, admission.confirm)
            self._clock.lap("race")
            if not self._profiles:
                return
            self._phase("profile")
            self._finding = await providing.profile(self._finding)
            self._clock.lap("profile")
            self._phase("refine")
            refined = await providing.refine(self._finding)
            self._clock.lap("refine")
            if not refined:
                return
            source = [self._ledger.add(submission) for submission in refined]

    async def _workload(self, context: RunContext) -> Workload:
        """Choose what is timed, before anybody is judged: what cannot be timed is told at once."""
        async with context.quiet.shared():
            workload = await choose_workload(context)
        self._why = workload.why
        for note in workload.notes:
            self._ledger.warn(note)
        return workload

    def _newly_passed(self) -> list[Entry]:
        return [entry for entry in self._ledger if entry.stage is Stage.PASSED]

    def _phase(self, name: str, detail: str = "") -> None:
        self._announce(PhaseStarted(run_id=self._run_id, phase=name, detail=detail))

    def _race(self) -> dict[str, Any]:
        found = race_summary(self._finding.outcomes)
        return {**found, "why": self._why} if found else {}

    # --- results ---------------------------------------------------------------------------------------

    def _judged(self) -> RunResult:
        finish_all(self._ledger, self._finding, with_race=self._races)
        verdict, summary = conclusion(self._ledger, self._finding, with_race=self._races)
        summary += self._caveat()
        if self._settings.compare is Compare.PASS_FAIL:
            summary += " Only test outcomes were compared (pass-fail), no values."
        return self._result(verdict, summary)

    def _caveat(self) -> str:
        """Say in the verdict's sentence that what won differs where no test looks."""
        best = {Status.WON, Status.TIED}
        found = [e.id for e in self._ledger if e.result and e.result.status in best and e.result.outside]
        if not found:
            return ""
        return f" On inputs unlike all observed ones {', '.join(found)} differs from the baseline."

    def _incomplete(self) -> RunResult:
        for entry in self._ledger:
            if entry.stage is not Stage.FINISHED:
                self._ledger.finish(entry, Status.CANCELLED, Code.CANCELLED, "The run was interrupted.")
        self._ending = Ending.INTERRUPTED
        fault = Fault(
            family="interrupted",
            code=self._interrupted,
            message="The run was interrupted.",
            hint=f"`codeflash-parallel resume {self._run_id}` goes on with it.",
        )
        result = self._result(None, "The run was interrupted.")
        return replace(result, error=fault)

    def _result(self, verdict: Verdict | None, summary: str) -> RunResult:
        context, settings = self._context, self._settings
        ranking = self._finding.ranking if verdict is not None else None
        self._clock.lap("report")
        total = sum(self._clock.ms.values())
        machine = self._around.machine
        candidates = self._candidates()
        return RunResult(
            run_id=self._run_id,
            complete=verdict is not None,
            verdict=verdict,
            winner=CandidateId(ranking.winner) if ranking and ranking.winner else None,
            tie_set=tuple(map(CandidateId, ranking.tie_set)) if ranking else (),
            compare=settings.compare.value,
            isolation=self._around.isolation.level.value,
            isolation_requested=self._around.isolation.requested,
            pass_env=self._around.pass_env,
            targets=tuple(str(target) for target in context.targets) if context else (),
            snapshot=context.snapshot.commit if context else "",
            base=context.snapshot.base if context else "",
            seed=self._seed,
            python=context.baseline.python if context else "",
            tests_selected=len(context.baseline.selected) if context else 0,
            level=self._level(),
            derivation=dict(context.baseline.derivation) if context else {},
            quarantined=context.baseline.quarantined if context else (),
            warnings=tuple(self._ledger.warnings),
            candidates=candidates,
            winner_profile=self._finding.winner_profile,
            baseline_profile=self._finding.baseline_profile,
            timings={**self._clock.ms, "total": total},
            steps_ms=summed(result.timings_ms for result in candidates),
            slots=self._slots(),
            warm=self._warm(),
            race=self._race(),
            load={"cores": float(machine.cores), "load_1min": machine.load},
            repository=str(self._around.repository.root),
            run_dir=str(self._run_dir),
            summary=summary,
        )

    def _slots(self) -> dict[str, Any]:
        """Return what slots are and cost."""
        if self._context is None:
            return {}
        slot = self._context.pool.baseline
        return {"kind": slot.kind.value, "bytes": slot.cost.bytes, "inodes": slot.cost.inodes}

    def _warm(self) -> dict[str, Any]:
        """Return what this run had of warm servers."""
        if self._context is None or self._context.fleet.off:
            return {}
        tally = self._context.fleet.tally()
        counts = {name: tally[name] for name in ("servers", "forks", "restarts")}
        return {**counts, "unfit": list(self._context.fleet.reasons())}

    def _level(self) -> Level:
        if self._context is None:
            return Level.NONE
        values = self._settings.compare is Compare.VALUES
        return self._context.baseline.level if values else Level.TESTS

    def _candidates(self) -> tuple[CandidateResult, ...]:
        results = {entry.id: entry.result for entry in self._ledger if entry.result is not None}
        return tuple(copied_from_originals(results).values())

    async def _finish(self, result: RunResult) -> RunResult:
        candidates = [entry.candidate for entry in self._ledger if entry.candidate is not None]
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(partial(save_run, self._run_dir, result, candidates))
            await self._chronicle.end(self._ending, self._interrupted)
        self._announce(RunFinished(run_id=self._run_id, result=result))
        return result
