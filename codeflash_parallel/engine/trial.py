"""Try tests out: do they pass on the baseline in another place, and without what a candidate changes?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from codeflash_parallel.behavior.check import CheckPlan
from codeflash_parallel.behavior.points import Point, Serving
from codeflash_parallel.behavior.report import GuestReport
from codeflash_parallel.behavior.serving import Place, Servers, run_served
from codeflash_parallel.behavior.session import SelectedRun, Session, Tracebacks, Wrap, selected_run_spec
from codeflash_parallel.engine.demands import forced_edits
from codeflash_parallel.model.candidate import digest_of
from codeflash_parallel.model.target import Target
from codeflash_parallel.model.workspace import Workspace
from codeflash_parallel.worktrees.pool import Slot


async def trial(
    plan: CheckPlan, workspace: Workspace, tests: Sequence[str], servers: Servers | None
) -> frozenset[str]:
    """Run some of the selected tests on the unchanged snapshot; return those with the expected outcome.

    Cancelling kills what runs.

    Args:
        plan: of the run.
        workspace: it holds the unchanged snapshot.
        tests: in the order in which they are to be run, and nothing before them.
        servers: of this slot.
    """
    report = await _report(plan, workspace, tests, servers, ())
    return _as_expected(plan, tests, report)


async def forced_trial(
    plan: CheckPlan, slot: Slot, tests: Sequence[str], servers: Servers | None, changed: Sequence[Target]
) -> frozenset[str] | None:
    """Run some of the selected tests while some targets raise; return those that do not notice it.

    Cancelling kills what runs.

    Args:
        plan: of the run.
        slot: it holds the unchanged snapshot, and does so again in the end.
        tests: in the order in which they are to be run.
        servers: of this slot.
        changed: the targets that raise.

    Returns:
        `None` where that could not be found out.
    """
    edits = forced_edits(replace(plan.guest, targets=tuple(changed)), plan.sources)
    await slot.stage(edits)
    try:
        report = await _report(plan, slot.workspace, tests, servers, tuple(changed))
    finally:
        await slot.discard()
    wrong = any(report.sources.get(edit.path, frozenset()) - {digest_of(edit.new or b"")} for edit in edits)
    return None if wrong or not report.finished else _as_expected(plan, tests, report)


async def _report(
    plan: CheckPlan,
    workspace: Workspace,
    tests: Sequence[str],
    servers: Servers | None,
    swap: tuple[Target, ...],
) -> GuestReport:
    # As candidates are run: a server at F2 records the calls inside the tests of all its runs or of none.
    run = SelectedRun(
        wrap=Wrap.DIGEST if plan.watches else Wrap.NONE,
        order=tuple(tests),
        tracebacks=Tracebacks.NATIVE,
        prove=tuple(target.path for target in swap),
    )
    # The arguments stay those of all selected tests: they are what a template was started with.
    spec = selected_run_spec(plan.guest, workspace, plan.baseline, run)
    place = Place(guest=plan.guest, workspace=workspace, limits=plan.limits, servers=servers)
    served = await run_served(place, spec, Serving(point=Point.F2, swap=swap), _no_doubt)
    return served.session.report


def _no_doubt(_session: Session) -> str:
    """Let every run count: one that a fork has spoilt shows in what it says of the tests."""
    return ""


def _as_expected(plan: CheckPlan, tests: Sequence[str], report: GuestReport) -> frozenset[str]:
    got, expected = report.tests, plan.baseline.expected
    return frozenset(test for test in tests if test in got and got[test].outcome == expected[test])
