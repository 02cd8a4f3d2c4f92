"""Learn what the baseline does, once per snapshot: probe, capture, stability, forced failure, provenance.

Run 1 runs everything that was asked for and counts which tests execute the targets. Run 2 runs those tests
under another hash seed and keeps the inputs of calls. The captured calls are replayed under both seeds
outside pytest; what the baseline does not repeat is left out and counted. Last, the targets are made to
raise: a failure that is not seen would mean that nothing can be judged here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from codeflash_parallel.behavior.baseline import Baseline
from codeflash_parallel.behavior.check import machinery_fault
from codeflash_parallel.behavior.compare import Outcomes, TestKey, outcomes_by_test
from codeflash_parallel.behavior.report import CallOutcome, GuestReport
from codeflash_parallel.behavior.session import (
    Guest,
    SelectedRun,
    Session,
    Stop,
    Wrap,
    first_run_spec,
    hashed,
    replay_spec,
    run_guest,
    selected_run_spec,
)
from codeflash_parallel.model.candidate import Edit, digest_of
from codeflash_parallel.model.errors import EnvironmentFault
from codeflash_parallel.model.functions import force_failure
from codeflash_parallel.model.outcome import Code
from codeflash_parallel.model.workspace import Limits, Workspace

#: A baseline has no earlier run to take a deadline from; an hour is "hung" for any suite one would race.
_BASELINE_LIMITS = Limits(wall_s=3600.0)
#: Hash seeds of the two baseline runs: fixed, so that the same snapshot gives the same findings.
_SEEDS = (1, 2)
#: Recording calls may cost twice the tests' own time, and never less than this.
_LEAST_RECORDING_S = 2.0
#: How many test ids one message names.
_NAMED = 5


class StagingSlot(Protocol):
    """The baseline's own slot."""

    @property
    def workspace(self) -> Workspace:
        """Where it is."""
        ...

    async def stage(self, edits: Sequence[Edit], /) -> None:
        """Write edits."""
        ...

    async def discard(self) -> None:
        """Restore the snapshot."""
        ...

    async def accept_bytecode(self) -> None:
        """Let the bytecode that the baseline's runs have made be part of the snapshot."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Preflight:
    """What the preflight needs besides the guest.

    Attributes:
        slot: the baseline's slot.
        sources: the snapshot's text of each target file.
        inputs: file for the captured inputs; made by a guest, read by guests only.
        ignored: git-ignored files that the snapshot lacks, for the hint on a red baseline.
    """

    guest: Guest
    slot: StagingSlot
    sources: Mapping[str, bytes]
    inputs: Path
    ignored: tuple[str, ...] = ()

    async def run(self) -> Baseline:
        """Return what the baseline does.

        Raises:
            EnvironmentFault: no pytest, no tests, a red baseline, or code from elsewhere.
        """
        first = await self._first_run()
        draft = _draft(first, self.guest, self.slot.workspace)
        second = await self._second_run(draft)
        wider = _wider(draft, first.report, second.report)
        if wider is not None:
            draft = wider
            second = await self._second_run(draft)
        settled = self._settle(draft, first.report, second)
        # Before anything is staged: discarding it removes whatever was not accepted.
        await self.slot.accept_bytecode()
        if settled.targets:
            settled = await self._replays(settled, first.report, second.report)
            settled = await self._forced_failure(settled)
        return settled

    async def _first_run(self) -> Session:
        workspace = hashed(self.slot.workspace, _SEEDS[0])
        spec = first_run_spec(self.guest, workspace, seconds=60.0)
        session = await run_guest(self.guest, workspace, spec, _BASELINE_LIMITS)
        _must_have_run(session, self.ignored)
        self._must_be_ours(session.report)
        return session

    async def _second_run(self, draft: Baseline) -> Session:
        workspace = hashed(self.slot.workspace, _SEEDS[1])
        seconds = max(_LEAST_RECORDING_S, 2 * sum(draft.durations_ns.values()) / 1e9)
        wrap = Wrap.CAPTURE if draft.targets else Wrap.NONE
        run = SelectedRun(wrap=wrap, seconds=seconds, inputs=str(self.inputs))
        spec = selected_run_spec(self.guest, workspace, draft, run)
        session = await run_guest(self.guest, workspace, spec, _BASELINE_LIMITS)
        _must_have_run(session, self.ignored)
        return session

    def _settle(self, draft: Baseline, first: GuestReport, second: Session) -> Baseline:
        expected, quarantined, red = _agreement(draft.selected, first, second.report)
        if red:
            raise _red(red, second.report, self.ignored)
        if not expected:
            names = ", ".join(quarantined[:_NAMED])
            raise EnvironmentFault(
                "NO_STABLE_TEST", f"No test gave the same outcome twice on the baseline: {names}."
            )
        kept = tuple(test for test in draft.selected if test in expected)
        return replace(
            draft,
            selected=kept,
            expected=expected,
            quarantined=quarantined,
            executing=tuple(test for test in draft.executing if test in expected),
            cpu_ns=second.exit.cpu_ns,
            wall_ns=second.exit.wall_ns,
            leaks=bool(second.exit.leaked),
            inputs=str(self.inputs),
        )

    async def _replays(self, draft: Baseline, first: GuestReport, second: GuestReport) -> Baseline:
        # A quarantined test is not run again: what it called can be compared with nothing.
        recorded = [c for c in second.calls if c.test not in set(draft.quarantined)]
        captured = {c.index: c for c in recorded if c.captured}
        uncaptured = Counter(c.why or "not captured" for c in recorded if not c.captured)
        replays = [await self._replay(seed, tuple(captured)) for seed in _SEEDS] if captured else []
        calls, unstable, bound = _stable(captured, replays)
        if bound:
            uncaptured["depends on the test's surroundings"] += len(bound)
        outside = [c for c in recorded if c.index not in calls]
        observed = _observed({(c.test, c.target) for c in outside}, first, second)
        return replace(
            draft,
            calls=calls,
            costs_ns={index: captured[index].ns for index in calls},
            unstable=unstable,
            uncaptured=dict(uncaptured),
            observed=observed,
        )

    async def _replay(self, seed: int, calls: Sequence[int]) -> GuestReport:
        workspace = hashed(self.slot.workspace, seed)
        spec = replay_spec(self.guest, str(self.inputs), (), calls)
        session = await run_guest(self.guest, workspace, spec, _BASELINE_LIMITS)
        # A replay that dies leaves the calls before it; the rest counts as unstable.
        return session.report

    async def _forced_failure(self, draft: Baseline) -> Baseline:
        edits = _forced_edits(self.guest, self.sources)
        await self.slot.stage(edits)
        try:
            run = SelectedRun(stop=Stop.FIRST_FAILURE)
            workspace = hashed(self.slot.workspace, _SEEDS[0])
            spec = selected_run_spec(self.guest, workspace, draft, run)
            session = await run_guest(self.guest, workspace, spec, _BASELINE_LIMITS)
        finally:
            await self.slot.discard()
        _must_be_forced(session.report, edits)
        if _saw_failure(session):
            return draft
        names = ", ".join(draft.targets)
        warning = f"No test notices when {names} raises: only the values of captured calls protect it."
        if not draft.calls and not draft.observed:
            raise EnvironmentFault(
                "FAILURE_NOT_SEEN",
                f"No test notices when {names} raises, and none of its calls could be captured.",
                "Name tests that check it with --tests, or add some with --extra-tests.",
            )
        return replace(draft, warnings=(*draft.warnings, warning))

    def _must_be_ours(self, report: GuestReport) -> None:
        if report.outside:
            module, path = report.outside[0]
            raise EnvironmentFault(
                "WRONG_SOURCE",
                f"The tests import {module} from {path}, which is not part of the snapshot.",
                "If git ignores it, name it with --include-ignored; else look how the package is installed.",
            )
        for path, text in self.sources.items():
            if report.sources.get(path, frozenset()) - {digest_of(text)}:
                raise EnvironmentFault("WRONG_SOURCE", f"The {path} that ran is not the snapshot's.")


def _draft(session: Session, guest: Guest, workspace: Workspace) -> Baseline:
    """Make the first findings: which tests execute the targets, and what was run under which roof."""
    report = session.report
    names = tuple(str(target) for target in guest.targets)
    executing = _executing(report)
    at_import = any(count for (test, _), count in report.executed.items() if not test)
    selected = executing if executing and not at_import else report.collected
    missing = bool(names) and not executing
    warnings = (f"No test executes {', '.join(names)}: whole tests are compared.",) if missing else ()
    return Baseline(
        targets=names,
        python=report.python,
        pytest=report.pytest,
        plugins=report.plugins,
        rootdir=_inside(report.rootdir, workspace.root),
        inifile=_inside(report.inifile, workspace.root),
        selected=tuple(selected),
        expected={},
        executing=executing,
        durations_ns={test: outcome.ns for test, outcome in report.tests.items()},
        loaded={path: next(iter(digests)) for path, digests in report.sources.items()},
        warnings=warnings,
    )


def _executing(report: GuestReport) -> tuple[str, ...]:
    executed = {test for (test, _), count in report.executed.items() if count and test}
    return tuple(test for test in report.collected if test in executed)


def _inside(path: str, root: Path) -> str:
    """Return a path relative to the root; empty when it lies elsewhere (our fallback configuration)."""
    if not path or not Path(path).is_relative_to(root):
        return ""
    return str(Path(path).relative_to(root))


def _wider(draft: Baseline, first: GuestReport, second: GuestReport) -> Baseline | None:
    """Return a draft that runs all tests, where one passed only after tests that were then left out."""
    lost = [t for t in draft.selected if _passed(first, t) and not _passed(second, t)]
    kept = set(draft.selected)
    every = tuple(t for t in first.collected if t in kept or _passed(first, t))
    if not lost or len(every) == len(draft.selected):
        return None
    warning = f"{lost[0]} may need tests that do not execute the target: all tests are run."
    return replace(draft, selected=every, warnings=(*draft.warnings, warning))


def _passed(report: GuestReport, test: str) -> bool:
    return test in report.tests and report.tests[test].outcome == "passed"


def _agreement(
    selected: Sequence[str], first: GuestReport, second: GuestReport
) -> tuple[dict[str, str], tuple[str, ...], tuple[str, ...]]:
    """Sort tests into expected outcomes, those that disagree with themselves, and those that fail twice."""
    expected, quarantined, red = {}, [], []
    for test in selected:
        outcomes = [r.tests[test].outcome if test in r.tests else "missing" for r in (first, second)]
        if outcomes[0] != outcomes[1]:
            quarantined.append(test)
        elif outcomes[0] in {"failed", "error", "missing"}:
            red.append(test)
        else:
            expected[test] = outcomes[0]
    return expected, tuple(quarantined), tuple(red)


def _must_have_run(session: Session, ignored: Sequence[str]) -> None:
    report, done = session.report, session.exit
    words = (done.stderr or done.stdout).strip()[-600:]
    if report.error_where == "pytest":
        raise EnvironmentFault(
            "NO_PYTEST",
            f"The project's interpreter cannot import pytest: {report.error}",
            "Install pytest there, or name another interpreter with --python.",
        )
    fault = machinery_fault(session)
    if fault is not None and fault.code is not Code.OK:
        raise EnvironmentFault(
            "BASELINE_CRASHED", f"The baseline's tests could not be run. {fault.reason}", words
        )
    broken = [t for t in report.tests.values() if t.phase == "collect"]
    if broken:
        raise _red([t.id for t in broken], report, ignored)
    if not report.collected:
        raise EnvironmentFault(
            "NO_TESTS",
            f"pytest found no tests (exit status {report.status}). {words}".strip(),
            "Name them with --tests, -k or -m.",
        )


def _red(tests: Sequence[str], report: GuestReport, ignored: Sequence[str]) -> EnvironmentFault:
    named = ", ".join(tests[:_NAMED]) + (f" and {len(tests) - _NAMED} more" if len(tests) > _NAMED else "")
    message = next(
        (report.tests[t].message for t in tests if t in report.tests and report.tests[t].message), ""
    )
    absent = [path for path in ignored if Path(path).name in message or Path(path).stem in message]
    hint = (
        f"It mentions {absent[0]}, which git ignores and the snapshot lacks: --include-ignored {absent[0]}."
        if absent
        else "Mend them, or leave them out with --tests, -k or -m."
    )
    last = message.strip().splitlines()[-1][:300] if message.strip() else ""
    return EnvironmentFault("RED_BASELINE", f"The baseline is red: {named} fails. {last}".strip(), hint)


def _stable(
    captured: Mapping[int, CallOutcome], replays: Sequence[GuestReport]
) -> tuple[dict[int, CallOutcome], int, list[int]]:
    """Sort captured calls: repeatable ones, the number of unstable ones, and those bound to their test."""
    answers = [{call.index: call for call in replay.calls} for replay in replays]
    calls: dict[int, CallOutcome] = {}
    unstable, bound = 0, []
    for index, seen in captured.items():
        found = [replay.get(index) for replay in answers]
        first, second = found[0], found[-1]
        if first is None or second is None or first.unencodable or second.unencodable:
            bound.append(index)
        elif (first.essence, first.type) != (second.essence, second.type):
            unstable += 1
        elif seen.kind and (seen.kind != second.kind or (seen.digest and seen.digest != second.digest)):
            bound.append(index)
        else:
            calls[index] = replace(second, test=seen.test, args=seen.args or second.args)
    return calls, unstable, bound


def _observed(keys: set[TestKey], first: GuestReport, second: GuestReport) -> dict[TestKey, Outcomes]:
    """Return outcomes inside tests that both runs saw completely and alike."""
    one, two = outcomes_by_test(first.calls), outcomes_by_test(second.calls)
    undigested = {(c.test, c.target) for r in (first, second) for c in r.calls if not _digested(c)}
    return {
        key: one[key]
        for key in keys - undigested
        if key[0]
        and key in one
        and one[key] == two.get(key)
        and sum(one[key].values()) == first.executed.get(key) == second.executed.get(key)
    }


def _digested(call: CallOutcome) -> bool:
    return call.kind == "raise" or (bool(call.digest) and not call.unencodable)


def _forced_edits(guest: Guest, sources: Mapping[str, bytes]) -> tuple[Edit, ...]:
    """Make every target raise."""
    edits = []
    for path in sorted({target.path for target in guest.targets}):
        text = sources[path].decode("utf-8")
        for target in guest.targets:
            if target.path == path:
                text = force_failure(text, target.qualname)
        edits.append(Edit(path=path, old_digest=digest_of(sources[path]), new=text.encode("utf-8")))
    return tuple(edits)


def _must_be_forced(report: GuestReport, edits: Sequence[Edit]) -> None:
    for edit in edits:
        if report.sources.get(edit.path, frozenset()) - {digest_of(edit.new or b"")}:
            raise EnvironmentFault(
                "WRONG_SOURCE", f"A staged change of {edit.path} did not reach the tests: other code ran."
            )


def _saw_failure(session: Session) -> bool:
    tests = session.report.tests.values()
    return not session.report.finished or any(t.outcome in {"failed", "error"} for t in tests)
