"""Verify a server: in its forks the unchanged snapshot must give what the preflight found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import SystemRandom
from typing import Any, NamedTuple

from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.check_plan import CheckPlan
from codeflash_parallel.check.comparison.call_comparison import ComparisonRules, differing
from codeflash_parallel.check.comparison.outcome_comparison import (
    Outcomes,
    TestKey,
    compare_observed,
    compare_tests,
)
from codeflash_parallel.check.comparison.value_comparison import compare_calls
from codeflash_parallel.check.integrity.canaries import Canary, arm, draw
from codeflash_parallel.check.integrity.process_faults import leak, machinery_fault, unbelievable
from codeflash_parallel.check.session.runner_session import (
    RunnerSession,
    SelectedRun,
    Tracebacks,
    WrapMode,
    read_session,
    replay_spec,
    selected_run_spec,
)
from codeflash_parallel.result.outcome_codes import Code
from codeflash_parallel.result.runtime_protocols import ServerGone, WarmProcess, Workspace
from codeflash_parallel.sandbox.runner_command import write_spec


class ServerVerification(NamedTuple):
    """The result of verifying a server.

    Attributes:
        why: the difference; empty: none.
        unkept: names of traces that the baseline itself does not repeat there: they compare nothing.
    """

    why: str
    unkept: frozenset[str] = frozenset()


async def verify(plan: CheckPlan, workspace: Workspace, mode: str, server: WarmProcess) -> ServerVerification:
    """Run the unchanged snapshot through a server and return what differs from the preflight.

    Cancelling kills what runs.

    Args:
        plan: of the run.
        workspace: the server's; it holds the unchanged snapshot.
        mode: ``tests`` or ``replay``.
        server: it.
    """
    baseline = plan.baseline
    observed = baseline.observed if plan.watches else {}
    canaries: tuple[Canary, ...] = ()
    if mode == "replay":
        spec = replay_spec(plan.runner, baseline.inputs, (), tuple(baseline.calls))
    else:
        canaries = draw(SystemRandom(), baseline.selected, baseline.places)
        spec = _tests_spec(plan, workspace, WrapMode.DIGEST if observed else WrapMode.NONE)
    spec, arms = arm(workspace, spec, canaries)
    path = write_spec(workspace, spec, plan.runner.directory)
    try:
        session = read_session(await server.run(path, plan.limits), arms)
    except ServerGone as gone:
        return ServerVerification(f"its server is gone ({gone})")
    fault = _fault(baseline, session)
    if fault:
        return ServerVerification(fault)
    return (
        _calls(baseline, session)
        if mode == "replay"
        else ServerVerification(_tests(baseline, session, observed))
    )


def _tests_spec(plan: CheckPlan, workspace: Workspace, wrap: WrapMode) -> dict[str, Any]:
    """Return the spec of a screening that ends with the last test."""
    run = SelectedRun(wrap=wrap, tracebacks=Tracebacks.NATIVE)
    return selected_run_spec(plan.runner, workspace, plan.baseline, run)


def _fault(baseline: Baseline, session: RunnerSession) -> str:
    """Return what is wrong with the process or with the bytes that it compiled."""
    if session.report.unswappable:
        return session.report.unswappable
    fault = machinery_fault(session) or (None if baseline.leaks else leak(session.exit))
    if fault is not None:
        return fault.reason
    sources = session.report.sources
    wrong = [path for path, digest in baseline.loaded.items() if sources.get(path, frozenset()) - {digest}]
    return f"the {wrong[0]} that ran is not the snapshot's" if wrong else ""


def _tests(baseline: Baseline, session: RunnerSession, observed: Mapping[TestKey, Outcomes]) -> str:
    compared = compare_tests(baseline.expected, session.report)
    if compared.code is not Code.OK:
        return compared.reason
    fault = unbelievable(session, baseline)
    if fault is not None:
        return fault.reason
    return compare_observed(observed, session.report, baseline.targets).reason


def _calls(baseline: Baseline, session: RunnerSession) -> ServerVerification:
    known = replace(baseline.known, derived={}, breaks={})
    compared = compare_calls(known, session.report)
    unkept = frozenset(
        one.trace for one in differing(known, session.report, {}) if one.is_hint(ComparisonRules())
    )
    return ServerVerification("" if compared.code is Code.OK else compared.reason, unkept)
