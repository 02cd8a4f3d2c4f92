"""What the baseline's runs say, put together. Pure: reports in, findings out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from codeflash_parallel.behavior.baseline import Baseline
from codeflash_parallel.behavior.compare import Outcomes, TestKey, outcomes_by_test
from codeflash_parallel.behavior.report import CallOutcome, GuestReport
from codeflash_parallel.behavior.session import Guest, Session
from codeflash_parallel.model.workspace import Workspace


def first_findings(session: Session, guest: Guest, workspace: Workspace) -> Baseline:
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


def wider(draft: Baseline, first: GuestReport, second: GuestReport) -> Baseline | None:
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


def agreement(
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


def stable(
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


def observed(keys: set[TestKey], first: GuestReport, second: GuestReport) -> dict[TestKey, Outcomes]:
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


def saw_failure(session: Session) -> bool:
    """Say whether a run in which the targets raise was noticed: a test fails, or pytest itself died of it."""
    tests = session.report.tests.values()
    return not session.report.finished or any(t.outcome in {"failed", "error"} for t in tests)
