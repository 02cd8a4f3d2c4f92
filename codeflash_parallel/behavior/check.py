"""The behavioral check of one candidate in one workspace: tests, provenance, values."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, assert_never

from codeflash_parallel.behavior.baseline import Baseline
from codeflash_parallel.behavior.compare import (
    Outcomes,
    TestComparison,
    TestKey,
    ValueComparison,
    compare_calls,
    compare_observed,
    compare_tests,
)
from codeflash_parallel.behavior.report import GuestReport
from codeflash_parallel.behavior.session import (
    Guest,
    SelectedRun,
    Session,
    Wrap,
    replay_spec,
    run_guest,
    selected_run_spec,
)
from codeflash_parallel.model.candidate import Candidate, digest_of
from codeflash_parallel.model.outcome import Code, Ended, Level
from codeflash_parallel.model.result import FailedTest, FirstDifference, TestCounts, ValueCounts
from codeflash_parallel.model.workspace import Limits, Workspace

#: How much of a dying process's last words goes into the reason.
_TAIL = 300


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckOutcome:
    """What a check found: `OK`, a code of rejection, or an `INFRA_…` code.

    Attributes:
        tests_ns: the tests' own setup, call and teardown.
        starved: the wall deadline was reached while CPU was left; worth one more try, alone.
        timings_ms: where the time went, by name.
    """

    code: Code
    reason: str
    tests: TestCounts = field(default_factory=TestCounts)
    values: ValueCounts = field(default_factory=ValueCounts)
    failures: tuple[FailedTest, ...] = ()
    difference: FirstDifference | None = None
    tests_ns: int = 0
    starved: bool = False
    notes: tuple[str, ...] = ()
    timings_ms: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckPlan:
    """How candidates of this run are checked."""

    guest: Guest
    baseline: Baseline
    limits: Limits
    compare_values: bool
    workers: int = 0


async def check(plan: CheckPlan, workspace: Workspace, candidate: Candidate) -> CheckOutcome:
    """Run the baseline's tests and captured calls on a staged candidate and compare.

    Cancelling kills what runs. The candidate's misbehaviour is in the returned value, never raised.
    """
    session = await run_guest(plan.guest, workspace, _tests_spec(plan, workspace, candidate), plan.limits)
    fault = machinery_fault(session) or wrong_source(session.report, candidate, plan.baseline)
    compared = compare_tests(plan.baseline.expected, session.report)
    if fault is None and session.exit.leaked and not plan.baseline.leaks:
        fault = _leaked(session)
    if fault is not None or compared.code is not Code.OK or not plan.compare_values:
        return _outcome(compared, None, session, None, fault)
    observed = compare_observed(_observable(plan, candidate), session.report, plan.baseline.targets)
    if observed.code is not Code.OK or not plan.baseline.calls:
        return _outcome(compared, observed, session, None, None)
    return await _replay(plan, workspace, candidate, session, compared)


def _tests_spec(plan: CheckPlan, workspace: Workspace, candidate: Candidate) -> dict[str, Any]:
    watch = plan.compare_values and bool(_observable(plan, candidate))
    run = SelectedRun(
        prove=tuple(edit.path for edit in candidate.edits),
        wrap=Wrap.DIGEST if watch else Wrap.NONE,
        workers=plan.workers,
    )
    return selected_run_spec(plan.guest, workspace, plan.baseline, run)


def _observable(plan: CheckPlan, candidate: Candidate) -> Mapping[TestKey, Outcomes]:
    """Calls seen inside tests can be compared where the candidate changes target files only."""
    target_paths = {target.path for target in plan.guest.targets}
    inside = all(edit.path in target_paths for edit in candidate.edits)
    return plan.baseline.observed if inside and plan.workers == 0 else {}


async def _replay(
    plan: CheckPlan, workspace: Workspace, candidate: Candidate, tests: Session, compared: TestComparison
) -> CheckOutcome:
    baseline = plan.baseline
    spec = replay_spec(plan.guest, baseline.inputs, [e.path for e in candidate.edits], tuple(baseline.calls))
    session = await run_guest(plan.guest, workspace, spec, plan.limits)
    fault = machinery_fault(session) or wrong_source(session.report, candidate, baseline)
    values = compare_calls(baseline.calls, session.report, baseline.targets, baseline.unstable)
    return _outcome(compared, values, tests, session, fault)


def _outcome(
    tests: TestComparison,
    values: ValueComparison | None,
    session: Session,
    replay: Session | None,
    fault: CheckOutcome | None,
) -> CheckOutcome:
    code, reason = (fault.code, fault.reason) if fault else (tests.code, tests.reason)
    if code is Code.OK and values is not None and (values.code is not Code.OK or values.reason):
        code, reason = values.code, values.reason
    counts = values.counts if values is not None and fault is None else ValueCounts(level=Level.TESTS)
    return CheckOutcome(
        code=code,
        reason=reason,
        tests=tests.counts,
        values=counts,
        failures=tests.failures,
        difference=values.difference if values else None,
        tests_ns=session.report.tests_ns,
        starved=bool(fault and fault.starved),
        timings_ms=_timings(session, replay),
    )


def _timings(session: Session, replay: Session | None) -> dict[str, float]:
    timings = {name: ns / 1e6 for name, ns in session.report.timings_ns.items()}
    timings["tests"] = session.report.tests_ns / 1e6
    timings["pytest_process"] = session.exit.wall_ns / 1e6
    if replay is not None:
        timings["replay_process"] = replay.exit.wall_ns / 1e6
    return timings


def machinery_fault(session: Session) -> CheckOutcome | None:
    """Return what went wrong with the process, if anything did; the tests are another axis."""
    done = session.exit
    cpu_s, wall_s = done.cpu_ns / 1e9, done.wall_ns / 1e9
    outcome: CheckOutcome | None
    match done.ended:
        case Ended.EXITED:
            outcome = _early_end(session)
        case Ended.SIGNALLED:
            outcome = _signalled(session)
        case Ended.CPU_DEADLINE:
            reason = f"The CPU deadline was reached after {cpu_s:.1f} s."
            outcome = CheckOutcome(code=Code.TIMEOUT, reason=reason)
        case Ended.WALL_DEADLINE:
            reason = f"The wall deadline was reached after {wall_s:.1f} s ({cpu_s:.1f} s of CPU)."
            outcome = CheckOutcome(code=Code.TIMEOUT, reason=reason, starved=True)
        case Ended.MEMORY_LIMIT:
            reason = f"The memory limit was reached. {done.message}".strip()
            outcome = CheckOutcome(code=Code.OUT_OF_MEMORY, reason=reason)
        case Ended.KILLED:
            outcome = CheckOutcome(code=Code.INFRA_KILLED, reason=done.message or "We killed the process.")
        case Ended.NOT_STARTED:
            reason = f"The process could not be started: {done.message}"
            outcome = CheckOutcome(code=Code.INFRA_SLOT, reason=reason)
        case _ as never:
            assert_never(never)
    return outcome


def _early_end(session: Session) -> CheckOutcome | None:
    if session.report.error:
        where, message = session.report.error_where, session.report.error
        return CheckOutcome(code=Code.INFRA_SLOT, reason=f"The guest failed in {where}: {message}")
    if session.report.finished:
        return None
    words = (session.exit.stderr or session.exit.stdout).strip()[-_TAIL:]
    reason = f"The interpreter ended with status {session.exit.status} before the tests were over. {words}"
    return CheckOutcome(code=Code.CRASHED, reason=reason.strip())


def _signalled(session: Session) -> CheckOutcome:
    number = abs(session.exit.status)
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    code = Code.INFRA_KILLED if number == signal.SIGKILL else Code.CRASHED
    return CheckOutcome(code=code, reason=f"The interpreter was ended by {name}.")


def _leaked(session: Session) -> CheckOutcome:
    names = ", ".join(session.exit.leaked[:5])
    return CheckOutcome(
        code=Code.LEAKED_PROCESS, reason=f"Processes outlived the tests and were killed: {names}."
    )


def wrong_source(report: GuestReport, candidate: Candidate, baseline: Baseline) -> CheckOutcome | None:
    """Return a rejection unless the bytes that were compiled are the candidate's (and nobody else's)."""
    if report.outside:
        module, path = report.outside[0]
        return CheckOutcome(code=Code.WRONG_SOURCE, reason=f"{module} would have been imported from {path}.")
    for edit in candidate.edits:
        loaded = report.sources.get(edit.path, frozenset())
        staged = digest_of(edit.new) if edit.new is not None else ""
        if loaded - {staged}:
            return CheckOutcome(
                code=Code.WRONG_SOURCE, reason=f"The {edit.path} that ran is not the candidate's."
            )
        if not loaded and staged and edit.path in baseline.loaded and report.finished and not _broken(report):
            return CheckOutcome(
                code=Code.WRONG_SOURCE, reason=f"The candidate's {edit.path} was never imported."
            )
    return None


def _broken(report: GuestReport) -> bool:
    """Say whether collection failed: then a module may rightly not have been reached."""
    return any(test.phase == "collect" for test in report.tests.values())
