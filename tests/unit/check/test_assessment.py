"""The gravest finding gives the code; faults come before tests, tests before values."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.candidates.functions import Target
from codeflash_parallel.check.assessment import (
    CandidateFinding,
    doubt,
    gives_alike,
    judged_replay,
    judged_tests,
    observable,
    run_fault,
)
from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.comparison.call_comparison import ComparisonRules
from codeflash_parallel.check.comparison.outcome_comparison import compare_tests
from codeflash_parallel.check.integrity.process_faults import machinery_fault
from codeflash_parallel.check.session.runner_report import (
    CONFINED,
    CallDigests,
    CallOutcome,
    RunnerReport,
    TestOutcome,
)
from codeflash_parallel.check.session.runner_session import RunnerSession
from codeflash_parallel.result.candidate_model import (
    Candidate,
    CandidateId,
    CandidateOrigin,
    Edit,
    digest_of,
)
from codeflash_parallel.result.outcome_codes import Code, ExitKind, Level
from codeflash_parallel.result.runtime_protocols import ProcessExit

OLD, NEW = b"old", b"new"
EDIT = Edit(path="m.py", old_digest=digest_of(OLD), new=NEW)
CANDIDATE = Candidate(id=CandidateId("c"), origin=CandidateOrigin.EDITS, edits=(EDIT,))
CALL = CallOutcome(index=0, test="a", target=0, kind="return", digest="d", after="e")
BASELINE = Baseline(
    targets=("m.py::f",),
    python="3.11",
    pytest="8",
    plugins=("xdist",),
    rootdir=".",
    inifile="",
    selected=("a", "b"),
    expected={"a": "passed", "b": "passed"},
    executing=("a",),
    asked=("a", "b", "c"),
    asked_expected={"a": "passed", "b": "passed", "c": "skipped"},
    durations_ns={"a": 2_000_000_000, "b": 500_000_000},
    calls={0: CALL},
    costs_ns={0: 5},
    observed={("a", 0): Counter({("return", "d", "e"): 2})},
    rss_bytes=7,
    loaded={"m.py": digest_of(OLD)},
)
SOUND = ProcessExit(ended=ExitKind.EXITED)


def session(*, exit_: ProcessExit = SOUND, digest: str = digest_of(NEW), **outcomes: str) -> RunnerSession:
    report = RunnerReport(
        finished=True,
        collected=("a", "b"),
        tests={test: TestOutcome(id=test, outcome=outcome) for test, outcome in outcomes.items()},
        sources={"m.py": frozenset({digest})} if digest else {},
    )
    return RunnerSession(report=report, exit=exit_)


def judged(run: RunnerSession, baseline: Baseline = BASELINE) -> CandidateFinding:
    compared = compare_tests(baseline.expected, run.report)
    return judged_tests(run, compared, CANDIDATE, baseline, {})


def test_a_sound_run_is_ok() -> None:
    found = judged(session(a="passed", b="passed"))
    assert (found.code, found.counts.level) == (Code.OK, Level.TESTS)


@pytest.mark.parametrize(
    ("exit_", "code"),
    [
        (ProcessExit(ended=ExitKind.SIGNALLED, status=-11), Code.CRASHED),
        (ProcessExit(ended=ExitKind.SIGNALLED, status=-9), Code.INFRA_KILLED),
        (ProcessExit(ended=ExitKind.SIGNALLED, status=-99), Code.CRASHED),
        (ProcessExit(ended=ExitKind.SIGNALLED, status=-24), Code.CPU_LIMIT),
        (ProcessExit(ended=ExitKind.SIGNALLED, status=-25), Code.DISK_LIMIT),
        (ProcessExit(ended=ExitKind.CPU_DEADLINE), Code.TOO_SLOW),
        (ProcessExit(ended=ExitKind.WALL_DEADLINE), Code.TIMEOUT),
        (ProcessExit(ended=ExitKind.MEMORY_LIMIT), Code.OUT_OF_MEMORY),
        (ProcessExit(ended=ExitKind.OOM_KILLED), Code.INFRA_MEMORY),
        (ProcessExit(ended=ExitKind.KILLED), Code.INFRA_KILLED),
        (ProcessExit(ended=ExitKind.NOT_STARTED, message="no"), Code.INFRA_SLOT),
        (ProcessExit(ended=ExitKind.EXITED, leaked=("1 sleep",)), Code.LEAKED_PROCESS),
    ],
)
def test_what_happens_to_the_process_comes_before_its_tests(exit_: ProcessExit, code: Code) -> None:
    assert judged(session(exit_=exit_, a="failed", b="passed")).code is code


def test_who_is_stopped_for_being_slow_is_told_how_slow() -> None:
    done = ProcessExit(ended=ExitKind.CPU_DEADLINE, cpu_ns=11_000_000_000)
    found = judged(session(exit_=done), replace(BASELINE, cpu_ns=200_000_000))
    assert found.code is Code.TOO_SLOW
    assert found.reason == "Slower: stopped after 55 times the baseline's time (11.0 s of CPU)."


def test_only_a_wall_deadline_starves() -> None:
    faults = [
        machinery_fault(session(exit_=ProcessExit(ended=e)))
        for e in (ExitKind.WALL_DEADLINE, ExitKind.CPU_DEADLINE)
    ]
    assert [fault is not None and fault.starved for fault in faults] == [True, False]


def test_a_signal_is_named() -> None:
    fault = machinery_fault(session(exit_=ProcessExit(ended=ExitKind.SIGNALLED, status=-11)))
    assert fault is not None
    assert fault.reason == "The interpreter was ended by SIGSEGV."


def test_who_could_not_be_killed_is_named() -> None:
    left = {"leaked": ("7 daemon", "8 stuck"), "unkillable": ("8 stuck",)}
    run = session(exit_=ProcessExit(ended=ExitKind.EXITED, **left), a="passed", b="passed")
    late = session(exit_=ProcessExit(ended=ExitKind.WALL_DEADLINE, **left))
    assert (judged(run).code, "could not be killed: 8 stuck." in judged(run).reason) == (
        Code.LEAKED_PROCESS,
        True,
    )
    assert (judged(late).code, "could not be killed: 8 stuck." in judged(late).reason) == (Code.TIMEOUT, True)


def test_a_baseline_that_leaks_excuses_leaks() -> None:
    run = session(exit_=ProcessExit(ended=ExitKind.EXITED, leaked=("1 sleep",)), a="passed", b="passed")
    assert judged(run, replace(BASELINE, leaks=True)).code is Code.OK


def test_an_end_without_an_end_record_is_a_crash_and_the_runner_s_own_failure_is_not() -> None:
    silent = RunnerSession(report=RunnerReport(), exit=replace(SOUND, stderr="last words"))
    broken = RunnerSession(report=RunnerReport(error="boom", error_where="spec"), exit=SOUND)
    report = RunnerReport(error="boom", error_where="spec", finished=True)
    forged = RunnerSession(report=report, exit=SOUND, is_forged=True)
    found = [machinery_fault(run) for run in (silent, broken, forged)]
    codes = [Code.CRASHED, Code.INFRA_SLOT, Code.RUNNER_TAMPERED]
    assert [fault.code for fault in found if fault] == codes
    assert found[0] is not None
    assert "last words" in found[0].reason


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize(
    ("error", "code"),
    [
        ("NameError: name 'len' is not defined", Code.CRASHED),
        ("OSError: [Errno 24] Too many open files", Code.INFRA_SLOT),
        ("BlockingIOError: [Errno 11] Resource temporarily unavailable", Code.INFRA_SLOT),
    ],
)
def test_a_runner_that_fails_once_a_candidate_may_have_run_is_a_crash(
    error: str, code: Code, finished: bool
) -> None:
    report = RunnerReport(error=error, error_where="runner", finished=finished, timings_ns={CONFINED: 1})
    fault = machinery_fault(RunnerSession(report=report, exit=SOUND))
    assert fault is not None
    assert (fault.code, error in fault.reason) == (code, True)


def test_code_of_somebody_else_is_no_verdict_on_the_candidate() -> None:
    for run in (
        session(digest=digest_of(OLD), a="passed", b="passed"),
        session(digest="", a="passed", b="passed"),
    ):
        assert judged(run).code is Code.WRONG_SOURCE
    outside = replace(session(a="passed").report, outside=(("m", "/elsewhere/m.py"),))
    assert judged(RunnerSession(report=outside, exit=SOUND)).code is Code.WRONG_SOURCE


def test_a_run_that_ended_early_need_not_have_imported_everything() -> None:
    assert judged(session(digest="", a="failed")).code is Code.TESTS_FAILED
    assert run_fault(session(digest="", a="passed", b="passed"), CANDIDATE, BASELINE, ()) is None


def test_a_replay_adds_values_and_faults() -> None:
    found = judged(session(a="passed", b="passed"))
    run = session()
    same = RunnerSession(report=replace(run.report, calls=(CALL,)), exit=SOUND)
    other = RunnerSession(report=replace(run.report, calls=(replace(CALL, digest="x"),)), exit=SOUND)
    crashed = RunnerSession(report=run.report, exit=ProcessExit(ended=ExitKind.SIGNALLED, status=-11))
    results = [
        judged_replay(found, replay, CANDIDATE, BASELINE, ComparisonRules(), {}, BASELINE.known)
        for replay in (same, other, crashed)
    ]
    assert [result.code for result in results] == [Code.OK, Code.VALUE_DIFFERS, Code.CRASHED]
    assert [result.counts.level for result in results] == [Level.CAPTURED, Level.CAPTURED, Level.TESTS]


def test_words_of_a_call_made_alone_count_if_it_gives_the_same() -> None:
    names = [name for name in CallDigests._fields if name not in {"call", "ns"}]
    digests = CallDigests(call=0, ns=9, **{name: getattr(CALL, name) for name in names})
    whole = RunnerSession(report=RunnerReport(answers=(digests,)), exit=SOUND)

    def alone(*calls: CallOutcome) -> RunnerSession:
        return RunnerSession(report=RunnerReport(calls=calls), exit=SOUND)

    assert gives_alike(0, alone(CALL), whole)
    others = [replace(CALL, **{name: "x"}) for name in ("kind", "type", "digest", "after", "traces")]
    assert not any(gives_alike(0, alone(other), whole) for other in others)
    assert not gives_alike(0, alone(), whole)


def test_a_replay_need_not_import_files_that_none_of_its_calls_goes_to() -> None:
    baseline = replace(BASELINE, targets=("m.py::f", "n.py::g"), calls={0: replace(CALL, target=1)})
    candidate = replace(CANDIDATE, edits=(EDIT, replace(EDIT, path="n.py")))
    found = judged(session(a="passed", b="passed"))
    for loaded, code in ((("n.py",), Code.OK), (("m.py",), Code.WRONG_SOURCE)):
        sources = {path: frozenset({digest_of(NEW)}) for path in loaded}
        report = replace(session().report, calls=tuple(baseline.calls.values()), sources=sources)
        loads = replace(baseline, loaded={"m.py": digest_of(OLD), "n.py": digest_of(OLD)})
        run = RunnerSession(report=report, exit=SOUND)
        assert judged_replay(found, run, candidate, loads, ComparisonRules(), {}, loads.known).code is code


@given(st.dictionaries(st.sampled_from("ab"), st.sampled_from(["passed", "failed", "skipped"])))
def test_without_a_fault_the_tests_give_the_code(outcomes: dict[str, str]) -> None:
    run = session(**outcomes)
    assert judged(run).code is compare_tests(BASELINE.expected, run.report).code


@pytest.mark.parametrize(
    ("run", "code"),
    [
        (session(a="passed", b="passed"), ""),
        (session(a="failed"), ""),
        (session(digest="", a="failed"), ""),
        (session(exit_=ProcessExit(ended=ExitKind.CPU_DEADLINE)), ""),
        (session(exit_=ProcessExit(ended=ExitKind.MEMORY_LIMIT)), ""),
        (session(exit_=ProcessExit(ended=ExitKind.SIGNALLED, status=-11)), "CRASHED"),
        (session(exit_=ProcessExit(ended=ExitKind.EXITED, leaked=("1 sleep",))), "LEAKED_PROCESS"),
        (session(digest="", a="passed"), "WRONG_SOURCE"),
        (session(digest=digest_of(OLD), a="failed"), "WRONG_SOURCE"),
        (RunnerSession(report=RunnerReport(error="boom"), exit=SOUND), "INFRA_SLOT"),
    ],
)
def test_what_a_fork_could_be_to_blame_for(run: RunnerSession, code: str) -> None:
    assert doubt(run, CANDIDATE, BASELINE, BASELINE.expected, BASELINE.loaded) == code


def test_calls_inside_tests_are_compared_where_only_targets_change() -> None:
    elsewhere = replace(CANDIDATE, edits=(EDIT, replace(EDIT, path="other.py")))
    targets = [Target(path="m.py", qualname="f")]
    assert observable(BASELINE, targets, CANDIDATE) == BASELINE.observed
    assert observable(BASELINE, targets, elsewhere) == {}
