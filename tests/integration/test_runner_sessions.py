"""How sessions that are out of the ordinary begin and end, in forks of templates and in new processes."""

from __future__ import annotations

from pathlib import Path

import pytest
from runner_sessions import write_files
from serving_lab import POINTS, Gate, open_lab

pytestmark = [pytest.mark.anyio, pytest.mark.engine]

SUMMARY = {
    "mod.py": "def f(x): return x\n",
    "test_mod.py": "from mod import f\ndef test_f(): assert f(1) == 1\ndef test_wrong(): assert f(1) == 2\n",
    "conftest.py": """
def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line("a summary that imports half the world")
def pytest_unconfigure():
    print("and the end")
""",
}

OWN_COLLECTION = {
    "mod.py": "def f(x): return x\n",
    "test_mod.py": "def test_f():\n    from mod import f\n    assert f(1) == 1\n",
    "conftest.py": """
import pathlib, pytest
def pytest_collection(session):
    module = pytest.Module.from_parent(session, path=pathlib.Path(__file__).with_name("test_mod.py"))
    session.items = list(module.collect())
    session.testscollected = len(session.items)
    return True
""",
}


async def test_no_plugin_is_asked_for_a_summary(tmp_path: Path) -> None:
    async with open_lab(tmp_path) as lab:
        write_files(lab.root, SUMMARY)
        new_process = await lab.new_process()
        async with lab.server("imported") as server:
            forked = await lab.fork(server)
    for run in (new_process, forked):
        assert run.outcomes == {"test_f": "passed", "test_wrong": "failed"}
        assert "half the world" not in run.exit.stdout
        assert "and the end" in run.exit.stdout


@pytest.mark.parametrize(("until", "gate"), POINTS)
async def test_a_template_runs_no_tests_whoever_collects(tmp_path: Path, until: str, gate: Gate) -> None:
    async with open_lab(tmp_path) as lab:
        write_files(lab.root, OWN_COLLECTION)
        new_process = await lab.new_process()
        async with lab.server(until, gate=gate) as server:
            assert server.ready.point == until
            forked = await lab.fork(server)
    assert forked.outcomes == new_process.outcomes == {"test_f": "passed"}
