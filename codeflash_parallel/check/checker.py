"""The behavioral check of one candidate in one workspace: tests, provenance, values.

`check` screens: the selected tests, those that caught earlier candidates first, until one decides; then the
captured calls. `rest` runs what screening left out, `confirm` everything in new processes. `evidence` finds
out more about a rejection. Whatever a shortcut says is what a run of all those tests in a new process says;
where a shortcut could be to blame for a rejection, it is made again without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import PurePosixPath
from random import SystemRandom
from time import monotonic_ns

from codeflash_parallel.check.assessment import CandidateFinding, doubt, judged_tests, observable, run_fault
from codeflash_parallel.check.call_replay import CallReplay
from codeflash_parallel.check.check_plan import CheckOutcome, CheckPlan
from codeflash_parallel.check.comparison.outcome_comparison import compare_tests
from codeflash_parallel.check.dispatch.fork_points import (
    ForkChoice,
    ForkContext,
    ForkPoint,
    choose,
    furthest,
)
from codeflash_parallel.check.dispatch.run_dispatch import RunPlace, StepTimes, WarmServers, run_served
from codeflash_parallel.check.integrity.canaries import draw
from codeflash_parallel.check.integrity.process_faults import unbelievable
from codeflash_parallel.check.session.runner_report import RunnerReport
from codeflash_parallel.check.session.runner_session import (
    RunnerSession,
    SelectedRun,
    StopRule,
    Tracebacks,
    WrapMode,
    selected_run_spec,
)
from codeflash_parallel.check.session.selected_tests import (
    ScreeningPlan,
    screening,
)
from codeflash_parallel.result.candidate_model import Candidate
from codeflash_parallel.result.outcome_codes import Code
from codeflash_parallel.result.result_model import ValueCounts
from codeflash_parallel.result.runtime_protocols import Workspace
from codeflash_parallel.workspace.slot.slot import Slot

#: Draws canaries: no seed, as a candidate could know that.
_RANDOM = SystemRandom()


async def check(
    plan: CheckPlan,
    workspace: Workspace,
    candidate: Candidate,
    servers: WarmServers | None,
    tree: Slot | None = None,
) -> CheckOutcome:
    """Run the selected tests and the captured calls on a staged candidate and compare.

    Cancelling kills what runs. The candidate's misbehaviour is in the returned value, never raised.

    Args:
        plan: of the run.
        workspace: where the candidate is staged.
        candidate: what was staged.
        servers: of this slot, for the selected tests.
        tree: lets tests lie elsewhere while calls are made again; `None`: they stay.
    """
    work = _Work(plan, workspace, candidate, servers, tree)
    screened = screening(plan.baseline, plan.killers, plan.workers)
    found = await work.screened(screened)
    if found.fault is None and found.code is not Code.OK:
        blamed = (*found.tests.counts.failed_ids, *found.tests.counts.missing_ids)
        if screened.needs_confirmation(blamed):
            found = await work.screened(ScreeningPlan(tests=plan.baseline.selected))
    return work.outcome(await work.replayed(found))


async def rest(
    plan: CheckPlan, workspace: Workspace, candidate: Candidate, tree: Slot | None = None
) -> CheckOutcome:
    """Run the tests that were asked for and not selected, on a candidate that passed the selected ones.

    What fails among them may miss the tests before it: then all are run, as `confirm` does.
    """
    work = _Work(plan, workspace, candidate, None)
    found = await work.remaining(plan.rest)
    return work.outcome(found) if found.code is Code.OK else await confirm(plan, workspace, candidate, tree)


async def confirm(
    plan: CheckPlan, workspace: Workspace, candidate: Candidate, tree: Slot | None = None
) -> CheckOutcome:
    """Run all tests that were asked for and all captured calls, in new processes."""
    work = _Work(
        replace(plan, new_process="it is confirmed in new processes"), workspace, candidate, None, tree
    )
    return work.outcome(await work.replayed(await work.everything()))


async def replays_alone(
    plan: CheckPlan,
    workspace: Workspace,
    candidate: Candidate,
    tree: Slot | None,
    servers: WarmServers | None = None,
) -> CheckOutcome:
    """Make captured calls and run no test, in a new process where there are no servers."""
    if servers is None:
        plan = replace(plan, new_process=plan.new_process or "there are no servers")
    work = _Work(plan, workspace, candidate, servers, tree)
    return work.outcome(await work.replayed(CandidateFinding(tests=compare_tests({}, RunnerReport()))))


async def evidence(
    plan: CheckPlan, workspace: Workspace, candidate: Candidate, servers: WarmServers | None
) -> CheckOutcome:
    """Run all selected tests on a rejected candidate: all its failures, in pytest's own words.

    Its `tests`, `failures` and `timings_ms` are of interest; the verdict is given already.

    Args:
        plan: of the run.
        workspace: where the candidate is staged.
        candidate: what was staged.
        servers: of this slot, for the selected tests.
    """
    work = _Work(plan, workspace, candidate, servers)
    outcome = work.outcome(await work.explained())
    return replace(outcome, timings_ms={"evidence": sum(outcome.timings_ms.values())})


class _Work:
    """One check while it goes on: its runs, where they began, and what they took."""

    def __init__(
        self,
        plan: CheckPlan,
        workspace: Workspace,
        candidate: Candidate,
        servers: WarmServers | None,
        tree: Slot | None = None,
    ) -> None:
        self._plan, self._baseline, self._candidate, self._tree = plan, plan.baseline, candidate, tree
        self._place = RunPlace(runner=plan.runner, workspace=workspace, limits=plan.limits, servers=servers)
        self._observed = observable(plan.baseline, plan.runner.targets, candidate) if plan.watches else {}
        self._began_ns = monotonic_ns()
        self._account = StepTimes()

    async def screened(self, how: ScreeningPlan) -> CandidateFinding:
        """Run the selected tests until one decides."""
        baseline = self._baseline
        run = SelectedRun(
            wrap=self._wrap,
            stop=StopRule.DECISIVE,
            tracebacks=Tracebacks.NATIVE,
            order=how.tests if how.tests != baseline.selected else (),
            workers=how.workers,
            tolerated=tuple(test for test in baseline.selected if test not in baseline.expected),
        )
        session = await self._tests(run, baseline.expected)
        compared = compare_tests(baseline.expected, session.report)
        return judged_tests(session, compared, self._candidate, baseline, self._observed)

    async def explained(self) -> CandidateFinding:
        """Run the selected tests to the end."""
        baseline = self._baseline
        run = SelectedRun(workers=self._plan.workers)
        session = await self._tests(run, baseline.expected)
        compared = compare_tests(baseline.expected, session.report)
        return judged_tests(session, compared, self._candidate, baseline, {})

    async def remaining(self, only: tuple[str, ...]) -> CandidateFinding:
        """Run other tests than the selected ones until one decides; they need not import a target."""
        expected = self._baseline.asked_expected
        known = {test: expected[test] for test in only if test in expected}
        if not known:
            return CandidateFinding(tests=compare_tests({}, RunnerReport()))
        run = SelectedRun(
            stop=StopRule.DECISIVE,
            tracebacks=Tracebacks.NATIVE,
            only=only,
            tolerated=tuple(test for test in only if test not in known),
        )
        session = await self._tests(run, known)
        compared = compare_tests(known, session.report)
        fault = run_fault(session, self._candidate, self._baseline, ())
        if compared.code is Code.OK:
            fault = fault or unbelievable(session, self._baseline)
        return CandidateFinding(tests=compared, fault=fault)

    async def everything(self) -> CandidateFinding:
        """Run all tests that were asked for, to the end."""
        baseline = self._baseline
        run = SelectedRun(wrap=self._wrap, only=baseline.asked)
        session = await self._tests(run, baseline.asked_expected)
        compared = compare_tests(baseline.asked_expected, session.report)
        return judged_tests(session, compared, self._candidate, baseline, self._observed)

    async def replayed(self, found: CandidateFinding) -> CandidateFinding:
        """Make the captured calls, if the tests leave anything to ask."""
        if found.code is not Code.OK or not self._plan.compare_values or not self._baseline.calls:
            return found
        replaying = CallReplay(
            plan=self._plan,
            place=self._place,
            tree=self._tree,
            candidate=self._candidate,
            by_edits=self._by_edits,
            account=self._account,
        )
        return await replaying.run(found)

    async def _tests(self, run: SelectedRun, expected: Mapping[str, str]) -> RunnerSession:
        plan, baseline = self._plan, self._baseline
        run = replace(run, prove=self._prove)
        spec = selected_run_spec(plan.runner, self._place.workspace, baseline, run)
        suite_s = baseline.suite_s if run.only is None else baseline.seconds_of(run.only)
        serving = choose(
            self._by_edits,
            suite_s=suite_s,
            workers=run.workers,
            watched=run.wrap is not WrapMode.NONE,
            watched_at_collected=plan.watches,
            new_process=plan.new_process,
        )
        order = run.order or run.only or baseline.selected
        draws = partial(draw, _RANDOM, order, baseline.places)
        served = await run_served(self._place, spec, serving, partial(self._doubt, expected), draws)
        self._account.tests(served)
        return served.session

    def _doubt(self, expected: Mapping[str, str], session: RunnerSession) -> str:
        return doubt(session, self._candidate, self._baseline, expected, self._baseline.loaded)

    @cached_property
    def _by_edits(self) -> ForkChoice:
        """Return where a run may begin, as far as the candidate is concerned."""
        if self._plan.by_edits is not None:
            return self._plan.by_edits
        ground = ForkContext(
            targets=self._plan.runner.targets,
            sources=self._plan.sources,
            packages=_packages(self._place.workspace, self._candidate),
        )
        return furthest(self._candidate.edits, ground)

    @property
    def _prove(self) -> tuple[str, ...]:
        return tuple(edit.path for edit in self._candidate.edits)

    @property
    def _wrap(self) -> WrapMode:
        # Servers at `collected` record the calls of all runs or of none.
        recorded = self._observed or (self._plan.watches and self._by_edits.point is ForkPoint.COLLECTED)
        return WrapMode.DIGEST if recorded else WrapMode.NONE

    def outcome(self, found: CandidateFinding) -> CheckOutcome:
        """Return what was found, and what it took."""
        account = self._account
        return CheckOutcome(
            code=found.code,
            reason=found.reason,
            tests=found.tests.counts,
            values=self._counts(found),
            failures=found.tests.failures,
            difference=found.values.difference if found.values else None,
            outside=found.values.outside if found.values else None,
            hints=found.values.hints if found.values else (),
            tests_ns=account.tests_ns,
            starved=bool(found.fault and found.fault.starved),
            killed=bool(found.fault and found.fault.killed),
            timings_ms=account.timings_ms(monotonic_ns() - self._began_ns),
            served=account.served,
            served_why=account.served_why,
            used=account.used,
            gate_ns=account.gate_ns,
            isolation_ns=account.isolation_ns,
        )

    def _counts(self, found: CandidateFinding) -> ValueCounts:
        """Return what was compared; where no call could be made again, why that is so."""
        counts = found.counts
        if found.code is not Code.OK or counts.uncaptured:
            return counts
        return replace(counts, uncaptured=self._baseline.uncaptured, unstable=len(self._baseline.unstable))


def _packages(workspace: Workspace, candidate: Candidate) -> frozenset[str]:
    """Return the snapshot's packages that the candidate adds files to; it is staged already."""
    added = {edit.path for edit in candidate.edits if edit.old_digest is None}
    folders = {str(PurePosixPath(path).parent) for path in added}
    inits = {folder: str(PurePosixPath(folder) / "__init__.py") for folder in folders}
    return frozenset(
        f for f, init in inits.items() if init not in added and (workspace.root / init).is_file()
    )


async def trial(
    plan: CheckPlan, workspace: Workspace, tests: Sequence[str], servers: WarmServers | None
) -> frozenset[str]:
    """Run some of the selected tests on the unchanged snapshot; return those with the expected outcome.

    Cancelling kills what runs.

    Args:
        plan: of the run.
        workspace: it holds the unchanged snapshot.
        tests: in the order in which they are to be run, and nothing before them.
        servers: of this slot.
    """
    # As candidates are run: servers at `collected` record calls inside the tests of all runs or of none.
    wrap = WrapMode.DIGEST if plan.watches else WrapMode.NONE
    run = SelectedRun(wrap=wrap, order=tuple(tests), tracebacks=Tracebacks.NATIVE)
    # The arguments stay those of all selected tests: they are what a template was started with.
    spec = selected_run_spec(plan.runner, workspace, plan.baseline, run)
    place = RunPlace(runner=plan.runner, workspace=workspace, limits=plan.limits, servers=servers)
    served = await run_served(place, spec, ForkChoice(point=ForkPoint.COLLECTED), _no_doubt)
    got, expected = served.session.report.tests, plan.baseline.expected
    return frozenset(test for test in tests if test in got and got[test].outcome == expected[test])


def _no_doubt(_session: RunnerSession) -> str:
    """Let every run count: one that a fork has spoilt shows in what it says of the tests."""
    return ""
