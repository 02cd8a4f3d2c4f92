"""Faults of a runner process, and of what its report claims: exits, sources, canaries, exit status. Pure."""

from __future__ import annotations

import re
import signal
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import assert_never

from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.comparison.outcome_comparison import DECISIVE
from codeflash_parallel.check.integrity.canaries import CanaryPlace, disbelief, failed_as_it_must
from codeflash_parallel.check.session.runner_report import CONFINED, RunnerReport
from codeflash_parallel.check.session.runner_session import RunnerSession
from codeflash_parallel.result.candidate_model import Candidate, digest_of
from codeflash_parallel.result.outcome_codes import Code, ExitKind
from codeflash_parallel.result.result_model import FailedTest
from codeflash_parallel.result.runtime_protocols import ProcessExit

#: How much of a dying process's last words goes into the reason.
_TAIL = 300
#: Names of processes in a reason, at most.
_NAMES = 5
#: How the machine says that somebody else has what there is one of: a port, a lock, a database.
_TAKEN = re.compile(r"Address already in use|Resource temporarily unavailable|database is locked")

#: The kernel's words for too many processes, threads or descriptors, and the numbers in Python's.
_REFUSED = re.compile(
    r"\[Errno (?:11|23|24)\]|Resource temporarily unavailable|Too many open files|can't start new thread"
)

#: Signals that say more than that the interpreter died. Who is killed is tried again alone.
_CODES = {
    int(signal.SIGKILL): Code.INFRA_KILLED,
    int(signal.SIGXCPU): Code.CPU_LIMIT,
    int(signal.SIGXFSZ): Code.DISK_LIMIT,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessFault:
    """A fault of a run besides its tests.

    Attributes:
        starved: the wall deadline was reached while CPU was left; worth one more try, alone.
        killed: by SIGKILL, which neither we sent nor the kernel for want of memory.
    """

    code: Code
    reason: str
    starved: bool = False
    killed: bool = False


def contested(failures: Iterable[FailedTest]) -> str:
    """Return the id of a test that found taken what another slot may have had at that moment, else ``""``.

    What a candidate says in its message costs it one more try, alone, and gains it nothing.
    """
    return next((failed.id for failed in failures if _TAKEN.search(failed.message)), "")


def machinery_fault(session: RunnerSession, baseline_ns: int = 0) -> ProcessFault | None:
    """Return what went wrong with the process, if anything did; the tests are another axis.

    Args:
        session: the run.
        baseline_ns: CPU time of the baseline's tests, from which the deadline follows; 0: unknown.
    """
    fault = _fault(session, baseline_ns)
    if fault is not None and session.exit.unkillable:
        return replace(fault, reason=f"{fault.reason} {_survivors(session.exit)}")
    return fault


def _fault(session: RunnerSession, baseline_ns: int) -> ProcessFault | None:
    done = session.exit
    match done.ended:
        case ExitKind.EXITED:
            return _early_end(session)
        case ExitKind.SIGNALLED:
            return _signalled(done)
        case ExitKind.CPU_DEADLINE | ExitKind.WALL_DEADLINE:
            return _late(done, baseline_ns)
        case ExitKind.MEMORY_LIMIT | ExitKind.OOM_KILLED:
            return _without_memory(done)
        case ExitKind.KILLED:
            return ProcessFault(code=Code.INFRA_KILLED, reason=done.message or "We killed the process.")
        case ExitKind.NOT_STARTED:
            reason = f"The process could not be started: {done.message}"
            return ProcessFault(code=Code.INFRA_SLOT, reason=reason)
        case _ as never:
            assert_never(never)


def _late(done: ProcessExit, baseline_ns: int) -> ProcessFault:
    cpu = f"{done.cpu_ns / 1e9:.1f} s"
    if done.ended is ExitKind.CPU_DEADLINE:
        reason = f"The CPU deadline was reached after {cpu}."
        if baseline_ns:
            times = f"{done.cpu_ns / baseline_ns:.0f} times the baseline's time"
            reason = f"Slower: stopped after {times} ({cpu} of CPU)."
        return ProcessFault(code=Code.TOO_SLOW, reason=reason)
    reason = f"The wall deadline was reached after {done.wall_ns / 1e9:.1f} s ({cpu} of CPU)."
    return ProcessFault(code=Code.TIMEOUT, reason=reason, starved=True)


def _without_memory(done: ProcessExit) -> ProcessFault:
    if done.ended is ExitKind.MEMORY_LIMIT:
        reason = f"The memory limit was reached. {done.message}".strip()
        return ProcessFault(code=Code.OUT_OF_MEMORY, reason=reason)
    reason = "The kernel killed the interpreter (SIGKILL): the machine had no memory left."
    return ProcessFault(code=Code.INFRA_MEMORY, reason=reason)


def _survivors(done: ProcessExit) -> str:
    return f"Processes are left that could not be killed: {', '.join(done.unkillable[:_NAMES])}."


def _early_end(session: RunnerSession) -> ProcessFault | None:
    if session.is_forged:
        return _forged(session)
    if session.report.error:
        return _own_failure(session.report)
    if session.report.finished:
        return _forged(session)
    words = (session.exit.stderr or session.exit.stdout).strip()[-_TAIL:]
    reason = f"The interpreter ended with status {session.exit.status} before the tests were over. {words}"
    return ProcessFault(code=Code.CRASHED, reason=reason.strip())


def _own_failure(report: RunnerReport) -> ProcessFault:
    """Tell a runner that could not begin from one that failed, or is said to have, beside a candidate's code.

    That code can break whatever the runner needs, and can write the record itself; the baseline's did not.
    What the kernel refuses may be the machine's fault at any time.
    """
    reason = f"The runner failed in {report.error_where}: {report.error}"
    is_ours = CONFINED not in report.timings_ns or _REFUSED.search(report.error)
    return ProcessFault(code=Code.INFRA_SLOT if is_ours else Code.CRASHED, reason=reason)


def _forged(session: RunnerSession) -> ProcessFault | None:
    """Return a rejection unless the records are the runner's own, and the end is as they tell."""
    told, seen = session.report.status, session.exit.status
    if session.is_forged:
        why = "Somebody else than the test runner wrote records of the tests."
    elif told != seen:
        why = f"The interpreter ended with status {seen}, and not with {told} as the test runner did."
    else:
        return None
    return ProcessFault(code=Code.RUNNER_TAMPERED, reason=why)


def _signalled(done: ProcessExit) -> ProcessFault:
    number = abs(done.status)
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    code = _CODES.get(number, Code.CRASHED)
    killed = code is Code.INFRA_KILLED
    return ProcessFault(code=code, reason=f"The interpreter was ended by {name}.", killed=killed)


def leak(done: ProcessExit) -> ProcessFault | None:
    """Return a rejection if processes outlived the main one."""
    if done.unkillable:
        return ProcessFault(code=Code.LEAKED_PROCESS, reason=_survivors(done))
    if not done.leaked:
        return None
    names = ", ".join(done.leaked[:_NAMES])
    return ProcessFault(
        code=Code.LEAKED_PROCESS, reason=f"Processes outlived the tests and were killed: {names}."
    )


def wrong_source(report: RunnerReport, candidate: Candidate, needed: Collection[str]) -> ProcessFault | None:
    """Return a rejection unless the bytes that were compiled are the candidate's (and nobody else's).

    Args:
        report: of a run of the candidate.
        candidate: what was staged.
        needed: paths that such a run imports in any case, if it comes to its end.
    """
    if report.outside:
        module, path = report.outside[0]
        return ProcessFault(code=Code.WRONG_SOURCE, reason=f"{module} would have been imported from {path}.")
    for edit in candidate.edits:
        loaded = report.sources.get(edit.path, frozenset())
        staged = digest_of(edit.new) if edit.new is not None else ""
        if loaded - {staged}:
            return ProcessFault(
                code=Code.WRONG_SOURCE, reason=f"The {edit.path} that ran is not the candidate's."
            )
        if not loaded and staged and edit.path in needed and report.finished and not _broken(report):
            reason = f"The candidate's {edit.path} was never imported."
            return ProcessFault(code=Code.WRONG_SOURCE, reason=reason)
    return None


def _broken(report: RunnerReport) -> bool:
    """Say whether collection failed: then a module may rightly not have been reached."""
    return any(test.phase == "collect" for test in report.tests.values())


#: How pytest ends where a test has failed, as canaries do (``ExitCode.TESTS_FAILED``).
TESTS_FAILED = 1
#: How many helpers one warning names.
_NAMED = 5


def unbelievable(session: RunnerSession, baseline: Baseline) -> ProcessFault | None:
    """Return a rejection unless a run in which every test passed has ended as it must.

    Every canary has failed in its way, the exit status is the one that was predicted (with canaries that of
    the baseline's own run with them, which is 1 unless the project sees to another one), and the test runner
    is what it was.

    Args:
        session: a run to the end.
        baseline: what is known.
    """
    why = disbelief(session.canaries, session.canary_outcomes)
    if why:
        return ProcessFault(code=Code.RUNNER_TAMPERED, reason=why)
    predicted, status = _predicted(session, baseline), session.report.status
    if status not in predicted:
        named = " or ".join(map(str, sorted(predicted)))
        why = f"The test run ended with status {status}; {named} was predicted: it was tampered with."
    why = why or _replaced(session, baseline)
    return ProcessFault(code=Code.RUNNER_TAMPERED, reason=why) if why else None


def _replaced(session: RunnerSession, baseline: Baseline) -> str:
    """Return what a run has replaced of the test runner that the baseline leaves; empty if nothing."""
    more = sorted(session.report.replaced.difference(baseline.replaced))
    named = "; ".join(more[:_NAMED])
    return f"Code of the test runner was replaced: {named}." if more else ""


def _predicted(session: RunnerSession, baseline: Baseline) -> frozenset[int]:
    if session.canaries:
        return frozenset({baseline.status})
    # Tests of which nothing is known may fail.
    failed = any(test.outcome in DECISIVE for test in session.report.tests.values())
    return frozenset({TESTS_FAILED if failed else 0, baseline.plain_status})


def with_canaries(draft: Baseline, tried: RunnerSession) -> Baseline:
    """Add to the findings where canaries fail as they must, and say where none does.

    Args:
        draft: the findings so far.
        tried: a run of the selected tests with canaries in many places.
    """
    places = tuple(c.place for c in tried.canaries if failed_as_it_must(c, tried.canary_outcomes))
    status = tried.report.status if places else draft.status
    warnings = (*draft.warnings, *_warnings(places, status))
    replaced = tuple(sorted(tried.report.replaced.union(draft.replaced)))
    return replace(draft, places=places, status=status, warnings=warnings, replaced=replaced)


def _warnings(places: tuple[CanaryPlace, ...], status: int) -> tuple[str, ...]:
    if not places:
        return ("No test that must fail could be put among the tests: the test runner is believed as it is.",)
    odd = f"The tests end with status {status} though some fail: the exit status proves little here."
    return (odd,) if status != TESTS_FAILED else ()
