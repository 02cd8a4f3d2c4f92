from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from codeflash_parallel.result.runtime_protocols import ProcessLimits, Workspace
from codeflash_parallel.sandbox import runner_command
from codeflash_parallel.sandbox.runner_command import (
    PACKAGE,
    ControlChannelUse,
    compile_command,
    install_runner,
    start_command,
)

#: Elsewhere a compiled runner is copied.
INSTALL = runner_command._install_new


@pytest.fixture(autouse=True)
def _really_installed(monkeypatch):
    monkeypatch.setattr(runner_command, "_install_new", INSTALL)


def test_many_installers_agree_and_leave_one_folder(tmp_path):
    with ThreadPoolExecutor(8) as threads:
        homes = set(threads.map(lambda _: install_runner(tmp_path), range(32)))

    assert len(homes) == 1
    assert [p.name for p in tmp_path.iterdir()] == [homes.pop().name]


def test_a_damaged_install_is_made_good(tmp_path):
    home = install_runner(tmp_path)
    victim = home / PACKAGE / "__init__.py"
    before = victim.read_bytes()
    victim.write_text("broken")

    assert install_runner(tmp_path) == home
    assert victim.read_bytes() == before


def test_it_is_compiled_by_the_interpreter_that_runs_it(tmp_path):
    home = install_runner(tmp_path)
    command = compile_command(Path(sys.executable), {}, ProcessLimits(wall_s=1), home)

    assert not list(home.rglob("*.pyc"))
    subprocess.run(command.argv, cwd=command.cwd, env=dict(command.environment), check=True)
    assert len(list(home.rglob("*.pyc"))) == len(list(home.rglob("*.py")))


def test_the_command_carries_the_spec_and_the_descriptors(tmp_path):
    workspace = Workspace(
        root=tmp_path,
        project=tmp_path / "sub",
        user_root=tmp_path / "user",
        interpreter=sys.executable,
        private=tmp_path / "private",
        environment={"A": "1"},
    )

    plain = start_command(workspace, {"mode": "tests"}, ProcessLimits(wall_s=1), tmp_path / "g")
    lines = start_command(
        workspace, {"mode": "arm"}, ProcessLimits(wall_s=1), tmp_path / "g", control=ControlChannelUse.LINES
    )

    spec = json.loads(Path(plain.argv[2]).read_bytes())
    assert (spec["mode"], spec["protocol"], spec["project"]) == ("tests", 1, str(tmp_path / "sub"))
    assert plain.argv[3:] == ("{records}",)
    assert lines.argv[3:] == ("{records}", "{control}")
    assert plain.argv[2] != lines.argv[2]
