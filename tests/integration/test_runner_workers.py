"""The runner runs a project's tests in workers of pytest-xdist, and all that they say comes home."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from runner_sessions import SessionRun, run_session, write_files


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "sp ace é"
    root.mkdir()
    return root


XDIST = pytest.mark.skipif(find_spec("xdist") is None, reason="pytest-xdist is not installed")


def spread(tmp_path: Path, project: Path, **fields: object) -> SessionRun:
    suite = """
import os, pytest, mod
@pytest.mark.parametrize("number", range(8))
@pytest.mark.xdist_group("one")
def test_a(number, tmp_path):
    assert mod.f(number) == number
    assert "PYTEST_XDIST_WORKER" in os.environ
    assert str(tmp_path).startswith(os.environ["HOME"])
def test_b(): assert 0
"""
    write_files(project, {"test_it.py": suite, "mod.py": "def f(x): return x\n"})
    environment = {"PYTEST_ADDOPTS": f"-p xdist.plugin {fields.pop('options', '')}"}
    return run_session(
        tmp_path,
        project,
        environment=environment,
        workers=2,
        targets=("mod.py::f",),
        wrap="digest",
        **fields,
    )


@XDIST
@pytest.mark.parametrize("options", ["", "-n 3 --dist=loadgroup"])
def test_workers_send_everything_home(tmp_path: Path, project: Path, options: str) -> None:
    run = spread(tmp_path, project, options=options)
    names = [f"test_a[{number}]" for number in range(8)]
    assert run.outcomes == dict.fromkeys(names, "passed") | {"test_b": "failed"}, run.output
    assert sorted(run.one("collected")["ids"]) == sorted(f"test_it.py::{name}" for name in [*names, "test_b"])
    assert run.executed == {(name, 0): 1 for name in names}
    assert sorted(r["i"] for r in run.named("call")) == list(range(8))
    assert {r["path"] for r in run.named("source")} == {"mod.py"}
    assert "2 workers" in run.output


@XDIST
def test_workers_run_only_what_is_selected_and_stop(tmp_path: Path, project: Path) -> None:
    run = spread(tmp_path, project, select=["test_it.py::test_b"], stop="first-failure")
    assert run.outcomes == {"test_b": "failed"}
    assert run.records[-1]["t"] == "end"
