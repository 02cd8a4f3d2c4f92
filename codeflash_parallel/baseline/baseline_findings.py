"""Findings from the reports of the baseline's runs. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.comparison.call_comparison import stable_traces, without_lasting
from codeflash_parallel.check.comparison.outcome_comparison import Outcomes, TestKey, outcomes_by_test
from codeflash_parallel.check.session.runner_report import CallOutcome, RunnerReport
from codeflash_parallel.check.session.runner_session import RunnerConfig, RunnerSession
from codeflash_parallel.check.session.selected_tests import executing_tests, selected_tests
from codeflash_parallel.result.runtime_protocols import Workspace

#: Outcomes of tests that a baseline must not have.
_RED = frozenset({"failed", "error", "missing"})
#: How much of a failure's last line is shown.
_SHOWN = 100


def first_findings(
    session: RunnerSession, runner: RunnerConfig, workspace: Workspace, *, runs_all: bool
) -> Baseline:
    """Return the findings of the first run: the tests, those that notice the targets, and the versions."""
    report = session.report
    names = tuple(str(target) for target in runner.targets)
    executing = executing_tests(report)
    root = workspace.seen(workspace.root)
    selected = report.collected if runs_all else selected_tests(report, targets=len(names))
    durations_ns = {test: outcome.ns for test, outcome in report.tests.items()}
    asked = {test: outcome for test in report.collected if (outcome := _outcome(report, test)) not in _RED}
    return Baseline(
        targets=names,
        python=report.python,
        pytest=report.pytest,
        plugins=report.plugins,
        plain_status=report.status,
        replaced=tuple(sorted(report.replaced)),
        rootdir=_inside(report.rootdir, root),
        inifile=_inside(report.inifile, root),
        selected=selected,
        expected={},
        asked=tuple(asked),
        asked_expected=asked,
        executing=executing,
        benchmarks=tuple(test for test in report.benchmarks if test in set(executing)),
        durations_ns=durations_ns,
        loaded={path: next(iter(digests)) for path, digests in report.sources.items()},
        warnings=_not_executed(names, executing),
        left_out=_red_elsewhere(report, selected, asked),
        wall_ns=session.exit.wall_ns,
    )


def _not_executed(names: Sequence[str], executing: Sequence[str]) -> tuple[str, ...]:
    missing = names and not executing
    return (f"No test executes {', '.join(names)}: whole tests are compared.",) if missing else ()


def _red_elsewhere(report: RunnerReport, selected: Sequence[str], asked: Mapping[str, str]) -> str:
    """Count the tests that no candidate is asked for, as the baseline fails them; selected ones are told."""
    red = [test for test in report.collected if test not in asked and test not in set(selected)]
    if not red:
        return ""
    said = report.tests[red[0]].message.strip().splitlines() if red[0] in report.tests else []
    why = f" ({said[-1].strip()[:_SHOWN]})" if said else ""
    counts = f"{len(red)} of {len(report.collected)} tests fail on the baseline and are left out"
    return f"{counts}, the first one is {red[0]}{why}."


def _inside(path: str, root: Path) -> str:
    """Return a path relative to the root; empty when it lies elsewhere (our fallback configuration)."""
    if not path or not Path(path).is_relative_to(root):
        return ""
    return str(Path(path).relative_to(root))


def wider(draft: Baseline, first: RunnerReport, second: RunnerReport) -> Baseline | None:
    """Return a draft that runs all tests, where one passed only after tests that were then left out."""
    passed = [test for test in draft.selected if _outcome(first, test) == "passed"]
    missed = [test for test in passed if _outcome(second, test) != "passed"]
    kept = set(draft.selected)
    every = tuple(t for t in first.collected if t in kept or _outcome(first, t) == "passed")
    if not missed or len(every) == len(draft.selected):
        return None
    warning = f"{missed[0]} may need tests that do not execute the target: all tests are run."
    return replace(draft, selected=every, warnings=(*draft.warnings, warning))


def _outcome(report: RunnerReport, test: str) -> str:
    return report.tests[test].outcome if test in report.tests else "missing"


def agreement(
    selected: Sequence[str], first: RunnerReport, second: RunnerReport
) -> tuple[dict[str, str], tuple[str, ...], tuple[str, ...]]:
    """Sort tests into expected outcomes, those that disagree with themselves, and those that fail twice."""
    expected, quarantined, red = {}, [], []
    for test in selected:
        outcomes = [_outcome(report, test) for report in (first, second)]
        if outcomes[0] != outcomes[1]:
            quarantined.append(test)
        elif outcomes[0] in _RED:
            red.append(test)
        else:
            expected[test] = outcomes[0]
    return expected, tuple(quarantined), tuple(red)


def repetitions(captured: Mapping[int, CallOutcome]) -> dict[int, int]:
    """Find captured calls that need not be replayed: the same inputs and outcome as two others have.

    Of equal calls two are replayed, as a second answer may differ from the first one: the first call, and
    one that comes right after an equal one if there is any, else the last.

    Returns:
        By the index of each call that is left out: the index of the second one that is replayed.
    """
    first: dict[_Same, int] = {}
    second: dict[_Same, int] = {}
    at_once: dict[_Same, int] = {}
    latest: dict[int, _Same | None] = {}
    for index, call in captured.items():
        same = _same(call)
        if same is not None:
            first.setdefault(same, index)
            second[same] = index
            if latest.get(call.target) == same:
                at_once.setdefault(same, index)
        latest[call.target] = same
    second |= at_once
    made = {*first.values(), *second.values()}
    keys = {index: _same(call) for index, call in captured.items() if index not in made}
    return {index: second[same] for index, same in keys.items() if same is not None}


#: Target, inputs and outcome of a captured call.
_Same = tuple[int, str, str, str, str, str]


def _same(call: CallOutcome) -> _Same | None:
    """Return what equal calls share; `None` when it is not known: then the call is like no other."""
    if not call.inputs or not _digested(call) or call.opaque:
        return None
    return (call.target, call.inputs, call.kind, call.type, call.digest, call.after)


@dataclass(frozen=True, kw_only=True, slots=True)
class Stability:
    """Captured calls, sorted by what their replays gave.

    Attributes:
        calls: outcomes of those that were replayed and are the same each time, by index.
        repeats: tests of the calls that were left out since they repeat one of `calls`, by index.
        unstable: tests of those that give something else from replay to replay, by index.
        bound: why others are not compared: they cannot be replayed, give another outcome than inside their
            test, or one that cannot be encoded; by index.
    """

    calls: Mapping[int, CallOutcome]
    repeats: Mapping[int, str]
    unstable: Mapping[int, str]
    bound: Mapping[int, str]


def timed_calls(found: Stability | Baseline) -> Mapping[int, str]:
    """Return the tests of calls that can be timed, by index: unstable ones only where there are no others."""
    stable = {index: call.test for index, call in found.calls.items()}
    return {**stable, **found.repeats} or found.unstable


def stable(
    captured: Mapping[int, CallOutcome], replays: Sequence[RunnerReport], repeated: Mapping[int, int]
) -> Stability:
    """Sort captured calls by what their replays gave; one that was left out goes with the one it repeats.

    Args:
        captured: all of them.
        replays: of those that were not left out.
        repeated: what `repetitions` found.
    """
    answers = [{call.index: call for call in replay.calls} for replay in replays]
    calls: dict[int, CallOutcome] = {}
    repeats: dict[int, str] = {}
    bound: dict[int, str] = {}
    unstable: dict[int, str] = {}
    for index, seen in captured.items():
        found = [replay.get(repeated.get(index, index)) for replay in answers]
        outcome = _replayed(seen, found[0], found[-1])
        if outcome is None:
            unstable[index] = seen.test
        elif isinstance(outcome, str):
            bound[index] = outcome
        elif index in repeated:
            repeats[index] = seen.test
        else:
            calls[index] = outcome
    return Stability(calls=without_unkept(calls), repeats=repeats, unstable=unstable, bound=bound)


#: Of a call that cannot be made again, or ends otherwise than in its test.
SURROUNDINGS = "depends on the test's surroundings"


def _replayed(
    seen: CallOutcome, first: CallOutcome | None, second: CallOutcome | None
) -> CallOutcome | str | None:
    """Return what a captured call gives when it is made again, or why that is not compared.

    `None` where its replays disagree.
    """
    if first is None or second is None:
        return SURROUNDINGS
    if why := first.unencodable or second.unencodable:
        return why
    judged = bool(first.plain and second.plain)
    if not (second.repeats(first) if judged else _gives_again(first, second)):
        return None
    if not judged and first.after != second.after:
        second = without_arguments(second)
    # Inside its test an iterator in a result is left to the test: less is known of that result there.
    known = bool(seen.digest) and not seen.opaque
    differs = known and not judged and seen.digest != second.digest
    if seen.kind and (seen.kind != second.kind or differs):
        return SURROUNDINGS
    told = replace(second, test=seen.test, target=seen.target, args=seen.args or second.args)
    return replace(told, traces=stable_traces(first.traces, second.traces))


def _gives_again(first: CallOutcome, second: CallOutcome) -> bool:
    return (first.kind, first.digest, first.type) == (second.kind, second.digest, second.type)


#: Why the state of a target's arguments after its calls is not compared.
UNKEPT = "the arguments afterwards: the baseline's own replays leave them in different states"


def without_arguments(call: CallOutcome) -> CallOutcome:
    """Return a call without the state of its arguments, now and later on: results hold such objects, too."""
    opaque = call.opaque or UNKEPT
    return replace(call, after="", traces=without_lasting(call.traces), opaque=opaque)


def without_unkept(calls: Mapping[int, CallOutcome]) -> dict[int, CallOutcome]:
    """Return stable calls without the arguments afterwards, where the baseline does not repeat a call's.

    Of no call of that target: objects that remember what was asked of them (assumptions that are worked out
    when they are needed, say) do so in all of them, and two replays tell of some only. Where no call gives
    anything, its arguments are what the target is for.
    """
    unkept = unkept_targets(calls)
    return {
        index: without_arguments(call) if call.target in unkept else call for index, call in calls.items()
    }


def unkept_targets(calls: Mapping[int, CallOutcome]) -> set[int]:
    """Return the targets with results of which the baseline does not repeat the state of all arguments."""
    giving = {call.target for call in calls.values() if call.type != "builtins.NoneType"}
    return {call.target for call in calls.values() if call.opaque == UNKEPT} & giving


def stable_globals(replays: Sequence[RunnerReport]) -> dict[str, Any]:
    """Return the globals that replays of the baseline leave alike, and what they change, as its fields."""
    if not replays:
        return {}
    first, second = replays[0], replays[-1]
    changed = [replay.changed_globals for replay in (first, second)]
    names = sorted(n for n in first.globals & second.globals if changed[0].get(n) == changed[1].get(n))
    return {
        "globals": tuple(names),
        "changed_globals": {name: changed[0][name] for name in names if name in changed[0]},
    }


def observed(keys: set[TestKey], first: RunnerReport, second: RunnerReport) -> dict[TestKey, Outcomes]:
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


def saw_failure(session: RunnerSession, quarantined: Collection[str]) -> bool:
    """Say whether a run in which the targets raise was noticed: a test fails, or pytest itself died of it.

    Args:
        session: the run.
        quarantined: tests that fail at times, whatever the targets do.
    """
    failed = [t.id for t in session.report.tests.values() if t.outcome in {"failed", "error"}]
    return not session.report.finished or any(test not in quarantined for test in failed)


def recorded_calls(draft: Baseline, captured: RunnerReport) -> list[CallOutcome]:
    """Return the calls that count: a quarantined test is not run again, there is nothing to compare with."""
    left_out = set(draft.quarantined)
    return [call for call in captured.calls if call.test not in left_out]


def captured_calls(draft: Baseline, captured: RunnerReport) -> dict[int, CallOutcome]:
    """Return the calls that count and whose inputs were captured, by number."""
    return {call.index: call for call in recorded_calls(draft, captured) if call.captured}
