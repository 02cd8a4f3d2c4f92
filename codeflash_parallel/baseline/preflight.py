"""Learn what the baseline does, once per snapshot: probe, capture, stability, forced failure, provenance.

Run 1 runs everything that was asked for and counts which tests execute the targets. Run 2 runs those tests
under another hash seed and keeps the inputs of calls. The captured calls are replayed under both seeds
outside pytest; what the baseline does not repeat is left out and counted. Where calls are neither compared
nor raced, they are captured and replayed only if tests notice nothing. Last, the targets are made to raise:
a failure that is not seen would mean that nothing can be judged here.

Warm servers are started beside all this as soon as it is known what they are for. The forced failure is
made in a fork of one of them, as a candidate would be; where it is not seen there, a new process decides.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import SystemRandom

import anyio
import anyio.to_thread

from codeflash_parallel.baseline.baseline_findings import (
    agreement,
    captured_calls,
    first_findings,
    observed,
    recorded_calls,
    saw_failure,
    stable_globals,
    timed_calls,
    wider,
)
from codeflash_parallel.baseline.baseline_validator import (
    MissingPrerequisite,
    forced_edits,
    must_be_forced,
    must_be_ours,
    must_have_ended,
    must_have_run,
    red_baseline,
    unnoticed,
)
from codeflash_parallel.baseline.input_derivation import BaselineReplayer, bounded
from codeflash_parallel.baseline.step_reporter import StepReporter
from codeflash_parallel.baseline.test_dependent_calls import absences, replayed, warnings_of
from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.comparison.accept_function import AcceptFunction
from codeflash_parallel.check.integrity.canaries import Canary, draw_at, places_of, to_be_tried, uses
from codeflash_parallel.check.integrity.process_faults import with_canaries
from codeflash_parallel.check.session.runner_report import CallOutcome, RunnerReport
from codeflash_parallel.check.session.runner_session import (
    BASELINE_RECORDING,
    RunnerConfig,
    RunnerSession,
    SelectedRun,
    StopRule,
    WrapMode,
    first_run_spec,
    hashed,
    run_guest,
    selected_run_spec,
)
from codeflash_parallel.config.environment import HASH_SEEDS
from codeflash_parallel.result.candidate_model import Edit
from codeflash_parallel.result.errors import EnvironmentFault
from codeflash_parallel.result.runtime_protocols import ProcessLimits, Workspace
from codeflash_parallel.warm.server_fleet import ServerWarmup
from codeflash_parallel.workspace.slot_pool import Slot

#: Test modules that are looked through, at most: 10 ms for each 1,000 lines.
_MOST_FILES = 40
#: Larger ones are made by programs.
_MOST_BYTES = 512 * 1024


def canaries_to_try(workspace: Workspace, draft: Baseline) -> tuple[Canary, ...]:
    """Return canaries for as many places as the baseline is to try. Blocking.

    Args:
        workspace: it holds the unchanged snapshot.
        draft: knows the selected tests.
    """
    random = SystemRandom()
    files = list(dict.fromkeys(test.partition("::")[0] for test in draft.selected))
    chosen = {draft.selected[-1].partition("::")[0], *random.sample(files, min(_MOST_FILES, len(files)))}
    texts = {file: _text(workspace.root / draft.rootdir / file) for file in chosen}
    used = {file: uses(text) for file, text in texts.items() if text}
    places = to_be_tried(random, places_of(draft.selected, used), draft.selected[-1])
    return draw_at(random, draft.selected, places)


def _text(path: Path) -> bytes:
    """Return what a Python file holds; nothing where it is none, or too large."""
    usable = path.suffix == ".py" and path.is_file() and path.stat().st_size <= _MOST_BYTES
    return path.read_bytes() if usable else b""


#: The first run has no earlier one to take a deadline from; an hour is "hung" for any suite one would race.
_FIRST_LIMITS = ProcessLimits(wall_s=3600.0)
#: Each later step may take so many times the first run's wall time, and so many seconds more.
_TIMES_FIRST, _MORE_S = 10, 60.0


def later_limits(baseline: Baseline) -> ProcessLimits:
    """Return the limits of a step that comes after a first run of the tests."""
    return ProcessLimits(wall_s=_MORE_S + _TIMES_FIRST * baseline.wall_ns / 1e9)


#: How many test ids one message names.
_NAMED = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Preflight:
    """The runs of the unchanged code from which the baseline is made.

    Attributes:
        slot: the baseline's slot.
        sources: the snapshot's text of each target file.
        inputs: file for the captured inputs; made by a guest, read by guests only.
        warmth: the servers that candidates will be judged by.
        judge: the user's, which has to accept the baseline's own results.
        replays: captured calls are wanted; else they are replayed only where no test notices the targets.
        runs_all: candidates run all tests that were asked for, and not only those that notice the targets.
        absent: what the tests have to do without, for the hint on a red baseline.
        files: paths of the snapshot.
        steps: tells what is done at the moment.
    """

    guest: RunnerConfig
    slot: Slot
    sources: Mapping[str, bytes]
    inputs: Path
    warmth: ServerWarmup
    steps: StepReporter
    judge: AcceptFunction | None = None
    replays: bool = True
    runs_all: bool = False
    absent: MissingPrerequisite = field(default_factory=MissingPrerequisite)
    files: tuple[str, ...] = ()

    async def run(self) -> Baseline:
        """Return what the baseline does.

        Raises:
            EnvironmentFault: no pytest, no tests, a red baseline, or code from elsewhere.
        """
        first = await self._first_run()
        draft = first_findings(first, self.guest, self.slot.workspace, runs_all=self.runs_all)
        await self.warmth.begin(draft)
        # What writes the second of the day has to differ between the two runs.
        await anyio.sleep(1 - time.time() % 1)
        second = await self._second_run(draft, captures=self.replays)
        widened = wider(draft, first.report, second.report)
        if widened is not None:
            draft = widened
            second = await self._second_run(draft, captures=self.replays)
        settled = self._settle(draft, first.report, second)
        settled = replace(settled, leftovers=await self.slot.audit())
        # Before anything is staged: discarding it removes whatever was not accepted.
        await self.slot.accept_bytecode()
        captured = captured_calls(settled, second.report)
        await self.warmth.go_on(replace(settled, calls=captured))
        if not settled.targets:
            return settled
        if self.replays:
            settled = await self._replays(settled, captured, first.report, second.report)
        if await self._is_noticed(settled):
            return settled
        return unnoticed(settled if self.replays else await self._with_calls(settled, first))

    async def _with_calls(self, draft: Baseline, first: RunnerSession) -> Baseline:
        """Capture the calls after all, and replay them."""
        second = (await self._second_run(draft, captures=True)).report
        await self.slot.discard()
        return await self._replays(draft, captured_calls(draft, second), first.report, second)

    async def _first_run(self) -> RunnerSession:
        workspace = hashed(self.slot.workspace, HASH_SEEDS[0])
        spec = first_run_spec(self.guest, workspace)
        watch = self.steps.tests("first run of the tests")
        session = await run_guest(self.guest, workspace, spec, _FIRST_LIMITS, watch=watch)
        must_have_ended(session, "first run of the tests")
        must_have_run(session, self.absent)
        must_be_ours(session.report, self.sources)
        return session

    async def _second_run(self, draft: Baseline, *, captures: bool) -> RunnerSession:
        """Run the selected tests under the other hash seed."""
        wrap = WrapMode.CAPTURE if captures and draft.targets else WrapMode.NONE
        workspace = hashed(self.slot.workspace, HASH_SEEDS[1])
        run = SelectedRun(wrap=wrap, recording=BASELINE_RECORDING, inputs=str(self.inputs))
        spec = selected_run_spec(self.guest, workspace, draft, run)
        canaries = await anyio.to_thread.run_sync(canaries_to_try, workspace, draft)
        step = "second run of the tests" + (", calls are captured" if wrap is WrapMode.CAPTURE else "")
        limits, watch = later_limits(draft), self.steps.tests(step)
        session = await run_guest(self.guest, workspace, spec, limits, canaries, watch)
        must_have_ended(session, step, draft.wall_ns)
        must_have_run(session, self.absent)
        return session

    def _settle(self, draft: Baseline, first: RunnerReport, second: RunnerSession) -> Baseline:
        expected, quarantined, red = agreement(draft.selected, first, second.report)
        if red:
            raise red_baseline(red, second.report, self.absent)
        if not expected:
            names = ", ".join(quarantined[:_NAMED])
            raise EnvironmentFault(
                "NO_STABLE_TEST", f"No test gave the same outcome twice on the baseline: {names}."
            )
        asked = {t: outcome for t, outcome in draft.asked_expected.items() if t not in set(quarantined)}
        return replace(
            with_canaries(draft, second),
            selected=tuple(test for test in draft.selected if test in expected),
            expected=expected,
            asked=tuple(asked),
            asked_expected=asked,
            quarantined=quarantined,
            executing=tuple(test for test in draft.executing if test in expected),
            cpu_ns=second.exit.cpu_ns,
            wall_ns=second.exit.wall_ns,
            rss_bytes=second.exit.max_rss_bytes,
            leaks=bool(second.exit.leaked),
            # A file that only tests outside the selection import proves nothing when it is not imported.
            loaded={p: digest for p, digest in draft.loaded.items() if p in second.report.sources},
            inputs=str(self.inputs),
        )

    async def _replays(
        self, draft: Baseline, captured: Mapping[int, CallOutcome], first: RunnerReport, second: RunnerReport
    ) -> Baseline:
        recorded = recorded_calls(draft, second)
        uncaptured = Counter(c.why or "not captured" for c in recorded if not c.captured)
        making = BaselineReplayer(
            guest=self.guest,
            workspace=self.slot.workspace,
            inputs=self.inputs,
            tree=self.slot,
            limits=later_limits(draft),
            steps=self.steps,
        )
        levels = absences(self.files, draft.asked, draft.rootdir, self.sources)
        got = await replayed(making, captured, levels)
        found = got.found
        uncaptured.update(found.bound.values())
        uncaptured.update(f"in part: {call.opaque}" for call in found.calls.values() if call.opaque)
        timed, sound = timed_calls(found), {*found.calls, *found.repeats}
        outside = [c for c in recorded if c.index not in sound]
        inside = observed({(c.test, c.target) for c in outside}, first, second)
        settled = replace(
            draft,
            calls=bounded(found.calls),
            aside=got.aside,
            sheltered=got.sheltered,
            warnings=(*draft.warnings, *warnings_of(got)),
            **stable_globals(got.replays),
            manners=got.manners,
            replay_cpu_ns=got.cpu_ns,
            replaced=tuple(sorted(got.replaced.union(draft.replaced))),
            repeats=found.repeats,
            costs_ns=got.costs_ns(captured),
            copies_ns=got.copies_ns(captured),
            # The target's number first: two targets may be given the same.
            inputs_of={i: f"{captured[i].target} {captured[i].inputs}" for i in timed if captured[i].inputs},
            unstable=found.unstable,
            uncaptured=dict(uncaptured),
            observed=inside,
        )
        for part in settled.parts:
            is_sheltered = part.known.calls.keys() <= set(got.sheltered)
            for replay in got.others if is_sheltered else got.replays:
                must_be_ours(replay, self.sources, part.known.paths & draft.loaded.keys())
        return settled if self.judge is None else await self._judged(self.judge, settled)

    async def _judged(self, judge: AcceptFunction, settled: Baseline) -> Baseline:
        self.steps.begin("the judge is asked about the baseline's own results")
        return await judge.settled(settled)

    async def _is_noticed(self, draft: Baseline) -> bool:
        """Say whether a test fails when the targets raise."""
        self.steps.begin("run of the tests with targets that raise")
        edits = forced_edits(self.guest, self.sources)
        if await self.warmth.sees(draft, edits):
            return True
        seen = await self._sees(draft, edits)
        if seen:
            await self.warmth.distrust(draft)
        return seen

    async def _sees(self, draft: Baseline, edits: Sequence[Edit]) -> bool:
        """Say whether a test fails in a new process that runs these edits."""
        await self.slot.stage(edits)
        try:
            run = SelectedRun(stop=StopRule.FIRST_FAILURE)
            workspace = hashed(self.slot.workspace, HASH_SEEDS[0])
            spec = selected_run_spec(self.guest, workspace, draft, run)
            session = await run_guest(self.guest, workspace, spec, later_limits(draft))
        finally:
            await self.slot.discard()
        must_be_forced(session.report, edits)
        return saw_failure(session)
