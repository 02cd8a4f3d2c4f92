"""Try tests out in another place: do they pass on the baseline where nothing ran before them?"""

from __future__ import annotations

from collections.abc import Sequence

from codeflash_parallel.check.check_plan import CheckPlan
from codeflash_parallel.check.dispatch.fork_points import ForkChoice, ForkPoint
from codeflash_parallel.check.dispatch.run_dispatch import RunPlace, WarmServers, run_served
from codeflash_parallel.check.session.runner_session import (
    RunnerSession,
    SelectedRun,
    Tracebacks,
    WrapMode,
    selected_run_spec,
)
from codeflash_parallel.result.runtime_protocols import Workspace


async def trial(
    plan: CheckPlan, workspace: Workspace, tests: Sequence[str], servers: WarmServers | None
) -> frozenset[str]:
    """Run some of the selected tests on the unchanged snapshot; return those with the expected outcome.

    Cancelling kills what runs.

    Args:
        plan: of the run.
        workspace: it holds the unchanged snapshot.
        tests: in the order in which they are to be run, and nothing before them.
        servers: of this slot.
    """
    # As candidates are run: servers at `collected` record calls inside the tests of all runs or of none.
    wrap = WrapMode.DIGEST if plan.watches else WrapMode.NONE
    run = SelectedRun(wrap=wrap, order=tuple(tests), tracebacks=Tracebacks.NATIVE)
    # The arguments stay those of all selected tests: they are what a template was started with.
    spec = selected_run_spec(plan.guest, workspace, plan.baseline, run)
    place = RunPlace(guest=plan.guest, workspace=workspace, limits=plan.limits, servers=servers)
    served = await run_served(place, spec, ForkChoice(point=ForkPoint.COLLECTED), _no_doubt)
    got, expected = served.session.report.tests, plan.baseline.expected
    return frozenset(test for test in tests if test in got and got[test].outcome == expected[test])


def _no_doubt(_session: RunnerSession) -> str:
    """Let every run count: one that a fork has spoilt shows in what it says of the tests."""
    return ""
