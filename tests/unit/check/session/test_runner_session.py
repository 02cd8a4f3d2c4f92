"""Specs of runs: which files pytest collects, under which configuration, and what is asked of the runner."""

from __future__ import annotations

from pathlib import Path

import pytest

from codeflash_parallel.candidates.functions import Target
from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.session.runner_session import (
    RunnerConfig,
    SelectedRun,
    StopRule,
    TestRequest,
    first_run_spec,
    hashed,
    replay_spec,
    selected_run_spec,
)
from codeflash_parallel.result.runtime_protocols import Workspace

BASELINE = Baseline(
    targets=("m.py::f",), python="", pytest="", plugins=(), rootdir="sub", inifile="sub/pytest.ini",
    selected=("test_a.py::x", "test_a.py::y", "test_b.py::z"), expected={}, executing=(),
)  # fmt: skip


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "root/sub").mkdir(parents=True)
    (tmp_path / "private").mkdir()
    return Workspace(
        root=tmp_path / "root",
        project=tmp_path / "root/sub",
        user_root=tmp_path / "user",
        interpreter=Path("/usr/bin/python"),
        private=tmp_path / "private",
        environment={"A": "1"},
    )


def runner(**request: object) -> RunnerConfig:
    return RunnerConfig(
        launcher=None,  # type: ignore[arg-type] # nothing is started
        directory=Path("/runner"),
        targets=(Target(path="m.py", qualname="f"),),
        request=TestRequest(**request),  # type: ignore[arg-type]
        seed=7,
    )


def test_the_files_of_the_selected_tests_are_collected_where_the_first_run_found_its_root(
    workspace: Workspace,
) -> None:
    run = SelectedRun(prove=("n.py",), stop=StopRule.DECISIVE)
    spec = selected_run_spec(runner(keyword="k", marker="m"), workspace, BASELINE, run)
    root = workspace.root / "sub"
    where = [f"--rootdir={root}", "-c", str(root / "pytest.ini")]
    assert spec["args"] == [*where, "-k", "k", "-m", "m", f"{root}/test_a.py", f"{root}/test_b.py"]
    assert (spec["select"], spec["stop"], spec["prove"]) == (
        list(BASELINE.selected),
        "decisive",
        ["m.py", "n.py"],
    )
    ordered = selected_run_spec(runner(), workspace, BASELINE, SelectedRun(order=("test_b.py::z",)))
    assert (ordered["select"], ordered["order"]) == (None, ["test_b.py::z"])
    some = selected_run_spec(runner(), workspace, BASELINE, SelectedRun(only=("test_b.py::z",)))
    assert (some["select"], some["args"][-1]) == (["test_b.py::z"], f"{root}/test_b.py")


def test_without_a_configuration_none_is_looked_for_above_the_slot(workspace: Workspace) -> None:
    spec = first_run_spec(runner(paths=("tests",)), workspace)
    empty = workspace.private / "pytest.ini"
    assert spec["args"] == [f"--rootdir={workspace.project}", "-c", str(empty), "tests"]
    assert empty.read_text() == "[pytest]\n"
    (workspace.root / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    assert first_run_spec(runner(), workspace)["args"] == []


def test_a_replay_names_derived_inputs_only_where_there_are_calls_with_them(workspace: Workspace) -> None:
    assert "derived" not in replay_spec(runner(), "inputs", (), (1, 2), derived=("file", ()))
    spec = replay_spec(runner(), "inputs", (), (1,), texts=(1,), derived=("file", (9,)))
    assert (spec["calls"], spec["texts"], spec["derived"], spec["derived_calls"]) == ([1], [1], "file", [9])
    assert hashed(workspace, 3).environment == {"A": "1", "PYTHONHASHSEED": "3"}
