"""A red baseline is explained by what its isolation takes; a baseline's name does not depend on memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from codeflash_parallel.check.session.runner_report import RunnerReport
from codeflash_parallel.result.errors import EnvironmentFault
from codeflash_parallel.result.isolation_policy import IsolationLevel, IsolationPolicy, RunnerLimits
from codeflash_parallel.result.runtime_protocols import Workspace
from codeflash_parallel.run.setup import evaluator_resources
from codeflash_parallel.run.setup.evaluator_resources import _explained, _key_of

CONFINED = IsolationPolicy(level=IsolationLevel.LANDLOCK, limits=RunnerLimits(data_bytes=1 << 30))
RED = EnvironmentFault("RED_BASELINE", "t.py::t fails: ConnectionRefusedError: network is unreachable")
RUNNER: Any = None


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[IsolationPolicy]:
    """Return the isolation of the runs that are made; all tests pass in them."""
    made: list[IsolationPolicy] = []

    async def run_session(_runner: object, workspace: Any, *_: object) -> Any:
        made.append(workspace.isolation)
        passed = SimpleNamespace(outcome="passed")
        return SimpleNamespace(report=SimpleNamespace(collected=True, tests={"t.py::t": passed}))

    monkeypatch.setattr(evaluator_resources, "run_session", run_session)
    monkeypatch.setattr(evaluator_resources, "first_run_spec", lambda *_: {})
    return made


def workspace(policy: IsolationPolicy) -> Workspace:
    slot = Path("/slots/1")
    return Workspace(
        root=slot / "tree",
        project=slot / "tree",
        user_root=Path("/user"),
        interpreter=Path("/python"),
        private=slot / "private",
        environment={},
        isolation=policy,
    )


@pytest.mark.anyio
async def test_a_baseline_that_is_green_without_isolation_lacks_a_right(runs: list[IsolationPolicy]) -> None:
    fault = await _explained(RED, RUNNER, workspace(CONFINED))
    assert (fault.code, runs) == ("RED_BASELINE", [IsolationPolicy()])
    assert "It is green without isolation" in fault.message
    assert "--isolation none takes no right" in fault.hint


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("fault", "policy"),
    [(RED, IsolationPolicy()), (EnvironmentFault("DISK_FULL", "No space."), CONFINED)],
)
async def test_other_faults_are_said_as_they_are(
    runs: list[IsolationPolicy], fault: EnvironmentFault, policy: IsolationPolicy
) -> None:
    assert await _explained(fault, RUNNER, workspace(policy)) is fault
    assert runs == []


@pytest.mark.anyio
async def test_a_baseline_that_is_red_everywhere_is_red(
    runs: list[IsolationPolicy], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run_session(*_: object) -> Any:
        return SimpleNamespace(report=RunnerReport())

    monkeypatch.setattr(evaluator_resources, "run_session", run_session)
    assert await _explained(RED, RUNNER, workspace(CONFINED)) is RED


def test_a_policy_is_named_by_its_rights() -> None:
    more = replace(CONFINED, limits=replace(CONFINED.limits, data_bytes=2 << 30))
    assert _key_of(more) == _key_of(CONFINED)
    assert _key_of(replace(CONFINED, network=True)) != _key_of(CONFINED)
    assert _key_of(replace(CONFINED, limits=replace(CONFINED.limits, open_files=3))) != _key_of(CONFINED)
