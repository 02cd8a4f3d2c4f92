"""Learn what the baseline does, once per snapshot: probe, capture, stability, forced failure, provenance.

Run 1 runs everything that was asked for, counts which tests execute the targets and keeps the inputs of their
calls. Run 2 runs those tests under another hash seed. The captured calls are replayed under both seeds
outside pytest; what the baseline does not repeat is left out and counted. Where calls are neither compared
nor raced, they are captured and replayed only if tests notice nothing. In another run the targets are made
to raise: a failure that is not seen would mean that nothing can be judged here. In a closed sandbox run 2,
the replays and that run go on side by side.

Warm servers are started beside all this as soon as it is known what they are for.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import SystemRandom
from typing import NamedTuple

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
from codeflash_parallel.baseline.baseline_replay import (
    BaselineReplayer,
    ReplayFindings,
    absences,
    bounded,
    replayed,
    warnings_of,
)
from codeflash_parallel.baseline.step_reporter import StepReporter
from codeflash_parallel.candidates.functions import force_failure
from codeflash_parallel.candidates.source_text import SourceText
from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.comparison.accept_function import AcceptFunction
from codeflash_parallel.check.integrity.canaries import Canary, draw_at, places_of, to_be_tried, uses
from codeflash_parallel.check.integrity.process_faults import machinery_fault, with_canaries
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
    run_session,
    selected_run_spec,
)
from codeflash_parallel.config.environment import HASH_SEEDS, mentioned
from codeflash_parallel.result.candidate_model import Edit, digest_of
from codeflash_parallel.result.errors import EnvironmentFault, ungrouped
from codeflash_parallel.result.outcome_codes import Code, ExitKind
from codeflash_parallel.result.runtime_protocols import ProcessLimits, Workspace
from codeflash_parallel.warm.server_fleet import ServerWarmup
from codeflash_parallel.workspace.slot_pool import Slot, SlotPool


@dataclass(frozen=True, kw_only=True, slots=True)
class MissingPrerequisite:
    """Files and variables of the user that tests do not find in a slot.

    Attributes:
        ignored: git-ignored files that the snapshot lacks.
        withheld: names of variables that were not passed on.
    """

    ignored: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()

    def hint(self, said: str, otherwise: str) -> str:
        """Return what to do about a baseline that fails.

        Args:
            said: what its tests, or pytest, said of it.
            otherwise: the hint where nothing that is absent is spoken of.
        """
        files = [path for path in self.ignored if Path(path).name in said or Path(path).stem in said]
        if names := mentioned(self.withheld, said):
            flags = " ".join(f"--pass-env {name}" for name in names[:_NAMED])
            return f"It mentions {', '.join(names[:_NAMED])}, withheld from your environment: {flags}."
        if files:
            where = "which git ignores and the snapshot lacks"
            return f"It mentions {files[0]}, {where}: --include-ignored {files[0]}."
        more = " Few of your variables are passed on; --pass-env NAME adds one." if self.withheld else ""
        return f"{otherwise}{more}"


def must_have_ended(session: RunnerSession, step: str, first_ns: int = 0) -> None:
    """Raise if a run of the baseline met its deadline, and name the test that it was in.

    Args:
        session: the run.
        step: what was done.
        first_ns: wall time of the first run, from which the deadline was taken; 0: this is the first.
    """
    if session.exit.ended is not ExitKind.WALL_DEADLINE:
        return
    report = session.report
    test = next((test for test in report.collected if test not in report.tests), "")
    where = f"it hung in {test}" if test else "it hung before the first test or after the last one"
    first = f" (the first run took {first_ns / 1e9:.1f} s)" if first_ns else ""
    raise EnvironmentFault(
        "BASELINE_TIMEOUT",
        f"The {step} did not end within {session.exit.wall_ns / 1e9:.0f} s{first}: {where}.",
        "Leave that test out with --tests, -k or -m, or name other tests.",
    )


def must_have_run(session: RunnerSession, absent: MissingPrerequisite) -> None:
    """Raise unless a run of the baseline came to its end and ran tests.

    Args:
        session: the run.
        absent: for a hint.
    """
    report, done = session.report, session.exit
    said = f"{done.stderr}\n{done.stdout}"
    errors = [line for line in said.splitlines() if line.startswith("ERROR")]
    words = (" ".join(errors) or done.stderr.strip() or done.stdout.strip())[-600:]
    if report.error_where == "pytest":
        raise EnvironmentFault(
            "NO_PYTEST",
            f"The project's interpreter cannot import pytest: {report.error}",
            "Install pytest there, or name another interpreter with --python.",
        )
    fault = machinery_fault(session)
    if fault is not None and fault.code is not Code.OK:
        raise EnvironmentFault(
            "BASELINE_CRASHED",
            f"The baseline's tests could not be run. {fault.reason}",
            absent.hint(said, words),
        )
    broken = [t for t in report.tests.values() if t.phase == "collect"]
    if broken:
        raise red_baseline([t.id for t in broken], report, absent)
    if not report.collected:
        raise EnvironmentFault(
            "NO_TESTS",
            f"pytest found no tests (exit status {report.status}). {words}".strip(),
            absent.hint(said, "Name them with --tests, -k or -m."),
        )


def red_baseline(tests: Sequence[str], report: RunnerReport, absent: MissingPrerequisite) -> EnvironmentFault:
    """Return the fault of a baseline in which some tests fail."""
    named = ", ".join(tests[:_NAMED]) + (f" and {len(tests) - _NAMED} more" if len(tests) > _NAMED else "")
    messages = [report.tests[t].message for t in tests if t in report.tests and report.tests[t].message]
    last = messages[0].strip().splitlines()[-1][:300] if "".join(messages[:1]).strip() else ""
    hint = absent.hint("\n".join(messages), "Mend them, or leave them out with --tests, -k or -m.")
    return EnvironmentFault("RED_BASELINE", f"The baseline is red: {named} fails. {last}".strip(), hint)


def must_be_ours(report: RunnerReport, sources: Mapping[str, bytes], needed: Collection[str] = ()) -> None:
    """Raise unless the code that ran is the snapshot's.

    Args:
        report: of a run of the snapshot.
        sources: its text of each target file.
        needed: paths of those that candidates are rejected for not having imported in such a run.
    """
    if report.outside:
        module, path = report.outside[0]
        raise EnvironmentFault(
            "WRONG_SOURCE",
            f"The tests import {module} from {path}, which is not part of the snapshot.",
            "If git ignores it, name it with --include-ignored; else look how the package is installed.",
        )
    for path, text in sources.items():
        loaded = report.sources.get(path, frozenset())
        if loaded - {digest_of(text)}:
            raise EnvironmentFault("WRONG_SOURCE", f"The {path} that ran is not the snapshot's.")
        if not loaded and path in needed:
            raise EnvironmentFault(
                "WRONG_SOURCE",
                f"Calls of {path} can be made again, but which code runs then cannot be proven.",
            )


def forced_edits(runner: RunnerConfig, sources: Mapping[str, bytes]) -> tuple[Edit, ...]:
    """Return edits that make every target raise; a file keeps its encoding and its line endings.

    Raises:
        EnvironmentFault: `BAD_SOURCE`, a file is not in the encoding that it names.
    """
    edits = []
    for path in sorted({target.path for target in runner.targets}):
        names = (target.qualname for target in runner.targets if target.path == path)
        source = _readable(path, sources[path])
        new = source.write(force_failure(source.text, *names))
        edits.append(Edit(path=path, old_digest=digest_of(sources[path]), new=new))
    return tuple(edits)


def _readable(path: str, data: bytes) -> SourceText:
    try:
        return SourceText.read(data)
    except (SyntaxError, UnicodeDecodeError) as error:
        raise EnvironmentFault(
            "BAD_SOURCE", f"{path} is not in the encoding that it names: {error}.", "Mend its coding line."
        ) from error


def must_be_forced(report: RunnerReport, edits: Sequence[Edit]) -> None:
    """Raise unless what ran was what was staged."""
    for edit in edits:
        if report.sources.get(edit.path, frozenset()) - {digest_of(edit.new or b"")}:
            raise EnvironmentFault(
                "WRONG_SOURCE", f"A staged change of {edit.path} did not reach the tests: other code ran."
            )


def unnoticed(draft: Baseline) -> Baseline:
    """Return what is known, with a warning that no test notices when the targets raise.

    Raises:
        EnvironmentFault: `FAILURE_NOT_SEEN`, there are no calls to be compared either.
    """
    names = ", ".join(draft.targets)
    if not draft.calls and not draft.observed:
        raise EnvironmentFault(
            "FAILURE_NOT_SEEN",
            f"No test notices when {names} raises, and none of its calls could be captured.",
            f"{draft.left_out} Name tests that check it with --tests, or --extra-tests.".lstrip(),
        )
    warning = f"No test notices when {names} raises: only the values of captured calls protect it."
    return replace(draft, warnings=(*draft.warnings, warning))


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


class _SecondRun(NamedTuple):
    """The baseline that two runs of the tests agree on, and the report of the second one."""

    settled: Baseline
    report: RunnerReport


@dataclass(kw_only=True, slots=True)
class _RunsBeside:
    """Results of what is run beside the second run of the tests.

    Attributes:
        replays: of captured calls; `None`: there are none yet.
        replayed: the numbers of these calls.
        forced: runs with targets that raise.
        are_last: the second run has ended.
    """

    replays: ReplayFindings | None = None
    replayed: frozenset[int] = frozenset()
    have_replayed: anyio.Event = field(default_factory=anyio.Event)
    forced: list[RunnerSession] = field(default_factory=list)
    are_last: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Preflight:
    """The runs of the unchanged code from which the baseline is made.

    Attributes:
        pool: its slots get the bytecode that is made here; one of them is lent for the run that is to fail.
        slot: the baseline's, of that pool.
        sources: the snapshot's text of each target file.
        inputs: file for the captured inputs; made by a runner, read by runners only.
        warmth: the servers that candidates will be judged by.
        judge: the user's, which has to accept the baseline's own results.
        replays: captured calls are wanted; else they are replayed only where no test notices the targets.
        runs_all: candidates run all tests that were asked for, and not only those that notice the targets.
        absent: what the tests have to do without, for the hint on a red baseline.
        files: paths of the snapshot.
        steps: tells what is done at the moment.
    """

    runner: RunnerConfig
    pool: SlotPool
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
        draft = first_findings(first, self.runner, self.slot.workspace, runs_all=self.runs_all)
        await self.warmth.begin(draft)
        # Where processes share ports and folders, tests could fail because of calls made beside them.
        is_closed = self.slot.workspace.isolation.is_closed
        again = None if is_closed else await self._again(draft, first)
        ground, beside = again.settled if again else draft, _RunsBeside(are_last=not is_closed)
        with ungrouped():
            async with anyio.create_task_group() as group:
                if ground.targets and self.replays:
                    group.start_soon(self._replay_beside, ground, first.report, beside)
                if ground.targets:
                    group.start_soon(self._force, ground, beside)
                settled, second = again or await self._again(draft, first)
                beside.are_last = True
                captured = captured_calls(settled, first.report)
                await self.warmth.go_on(replace(settled, calls=captured))
                if settled.targets and self.replays:
                    found = await self._replays(settled, captured, beside)
                    settled = await self._with_calls(settled, found, first.report, second)
                if settled.targets:
                    await self.warmth.verify(settled)
                    self.steps.begin("run of the tests with targets that raise")
        if not settled.targets or await self._is_noticed(settled, ground, beside):
            return settled
        return unnoticed(settled if self.replays else await self._captured(settled, first.report))

    async def _is_noticed(self, settled: Baseline, ground: Baseline, beside: _RunsBeside) -> bool:
        """Say whether tests notice when the targets raise; those that were left out since do not count."""
        if saw_failure(beside.forced[0], settled.quarantined):
            return True
        if settled.selected == ground.selected:
            return False
        await self._force(settled, beside)
        return saw_failure(beside.forced[-1], settled.quarantined)

    async def _captured(self, settled: Baseline, first: RunnerReport) -> Baseline:
        """Capture the calls after all, and replay them."""
        step = "run of the tests, calls are captured"
        report = (await self._selected_run(settled, WrapMode.CAPTURE, step)).report
        await self.slot.discard()
        captured = captured_calls(settled, report)
        found = await self._replayed(settled, captured, self.slot, self.steps)
        await self.slot.discard()
        return await self._with_calls(settled, found, report, first)

    async def _first_run(self) -> RunnerSession:
        workspace = hashed(self.slot.workspace, HASH_SEEDS[0])
        captures = self.replays and bool(self.runner.targets)
        spec = first_run_spec(self.runner, workspace, str(self.inputs) if captures else "")
        step = "first run of the tests" + (", calls are captured" if captures else "")
        watch = self.steps.tests(step)
        session = await run_session(self.runner, workspace, spec, _FIRST_LIMITS, watch=watch)
        must_have_ended(session, "first run of the tests")
        must_have_run(session, self.absent)
        must_be_ours(session.report, self.sources)
        return session

    async def _again(self, draft: Baseline, first: RunnerSession) -> _SecondRun:
        """Run the selected tests again, all of them if some need others, and return what they repeat."""
        wrap = WrapMode.DIGEST if self.replays and draft.targets else WrapMode.NONE
        second = await self._selected_run(draft, wrap, "second run of the tests")
        widened = wider(draft, first.report, second.report)
        if widened is not None:
            draft = widened
            second = await self._selected_run(draft, wrap, "second run of the tests")
        settled = self._settle(draft, first, second)
        leftovers = await self.slot.audit()
        # Before the slot is restored, which removes whatever was not accepted.
        await self.pool.share_bytecode()
        await self.slot.discard()
        return _SecondRun(replace(settled, leftovers=leftovers), second.report)

    async def _selected_run(self, draft: Baseline, wrap: WrapMode, step: str) -> RunnerSession:
        """Run the selected tests under the other hash seed."""
        workspace = hashed(self.slot.workspace, HASH_SEEDS[1])
        inputs = str(self.inputs) if wrap is WrapMode.CAPTURE else ""
        # What writes the second of the day, in a test or on import, has to differ between the two runs.
        later = float(int(time.time()) + 1)
        run = SelectedRun(wrap=wrap, recording=BASELINE_RECORDING, inputs=inputs, not_before=later)
        spec = selected_run_spec(self.runner, workspace, draft, run)
        canaries = await anyio.to_thread.run_sync(canaries_to_try, workspace, draft)
        limits, watch = later_limits(draft), self.steps.tests(step)
        session = await run_session(self.runner, workspace, spec, limits, canaries, watch)
        must_have_ended(session, step, draft.wall_ns)
        must_have_run(session, self.absent)
        return session

    def _settle(self, draft: Baseline, first: RunnerSession, second: RunnerSession) -> Baseline:
        expected, quarantined, red = agreement(draft.selected, first.report, second.report)
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
            # By the first run, beside which there was no other.
            wall_ns=second.exit.cpu_ns * first.exit.wall_ns // max(1, first.exit.cpu_ns),
            rss_bytes=second.exit.max_rss_bytes,
            leaks=bool(second.exit.leaked),
            # A file that only tests outside the selection import proves nothing when it is not imported.
            loaded={p: digest for p, digest in draft.loaded.items() if p in second.report.sources},
            inputs=str(self.inputs),
        )

    async def _replay_beside(self, ground: Baseline, first: RunnerReport, beside: _RunsBeside) -> None:
        """Replay the calls of the first run; in a slot for candidates if tests are still run in the other."""
        captured, steps = captured_calls(ground, first), self.steps.beside(lambda: beside.are_last)
        if beside.are_last:
            beside.replays = await self._replayed(ground, captured, self.slot, steps)
            await self.slot.discard()
        else:
            async with self.pool.acquire(unused=True) as slot:
                beside.replays = await self._replayed(ground, captured, slot, steps)
        beside.replayed = frozenset(captured)
        beside.have_replayed.set()

    async def _replays(
        self, settled: Baseline, captured: Mapping[int, CallOutcome], beside: _RunsBeside
    ) -> ReplayFindings:
        """Return the replays of captured calls; they are made anew if some calls have been left out since."""
        await beside.have_replayed.wait()
        if beside.replays is not None and beside.replayed == captured.keys():
            return beside.replays
        async with self.pool.acquire(unused=True) as slot:
            return await self._replayed(settled, captured, slot, self.steps)

    async def _replayed(
        self, draft: Baseline, captured: Mapping[int, CallOutcome], slot: Slot, steps: StepReporter
    ) -> ReplayFindings:
        making = BaselineReplayer(
            runner=self.runner,
            workspace=slot.workspace,
            inputs=self.inputs,
            tree=slot,
            limits=later_limits(draft),
            steps=steps,
        )
        levels = absences(self.files, draft.asked, draft.rootdir, self.sources)
        return await replayed(making, captured, levels)

    async def _with_calls(
        self, draft: Baseline, got: ReplayFindings, recorded_in: RunnerReport, other: RunnerReport
    ) -> Baseline:
        """Add calls and their outcomes.

        Args:
            got: their replays.
            recorded_in: the run that captured them.
            other: another run of the same tests.
        """
        recorded = recorded_calls(draft, recorded_in)
        captured = captured_calls(draft, recorded_in)
        uncaptured = Counter(c.why or "not captured" for c in recorded if not c.captured)
        found = got.found
        uncaptured.update(found.bound.values())
        uncaptured.update(f"in part: {call.opaque}" for call in found.calls.values() if call.opaque)
        timed, sound = timed_calls(found), {*found.calls, *found.repeats}
        outside = [c for c in recorded if c.index not in sound]
        inside = observed({(c.test, c.target) for c in outside}, recorded_in, other)
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

    async def _force(self, draft: Baseline, beside: _RunsBeside) -> None:
        """Run the tests with targets that raise, in a slot for candidates: others are run meanwhile."""
        edits = forced_edits(self.runner, self.sources)
        async with self.pool.acquire(unused=True) as slot:
            await slot.stage(edits)
            run = SelectedRun(stop=StopRule.FIRST_FAILURE)
            workspace = hashed(slot.workspace, HASH_SEEDS[0])
            spec = selected_run_spec(self.runner, workspace, draft, run)
            session = await run_session(self.runner, workspace, spec, later_limits(draft))
        must_be_forced(session.report, edits)
        beside.forced.append(session)
