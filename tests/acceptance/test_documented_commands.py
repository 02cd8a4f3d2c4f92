"""Every command of README and docs is executed as it stands, on the project of the demonstration."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from aftermath import processes_of, worktrees_left
from documentation import executed_pages, name_of, script_of
from harness import (
    FIXTURES,
    LONGEST_S,
    ROOT,
    Place,
    commit_all,
    copy_tree,
    git,
    make_place,
)

# The demonstration, a session of its own in the gate, runs the same commands on the same project.
pytestmark = [pytest.mark.slow, pytest.mark.witness]

#: Wall seconds that a race may take: on a machine that other tests use, the automatic budget may be too short.
BUDGET = {"CODEFLASH_PARALLEL_TIME_BUDGET": "150"}
#: It makes its own copy of the project, and its own candidates.
BEGINS_EMPTY = {"docs/tutorial.md"}


@pytest.mark.parametrize("page", executed_pages(), ids=name_of)
def test_the_commands_of_a_page_work(page: Path, tmp_path: Path) -> None:
    place = make_place(tmp_path / "user")
    if name_of(page) not in BEGINS_EMPTY:
        copy_tree(FIXTURES / "demonstration" / "project", place.repository)
        commit_all(place.repository)
        copy_tree(FIXTURES / "demonstration" / "candidates", place.repository / "candidates")

    done = _typed(script_of(page), place)

    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
    assert processes_of(place.cache) == processes_of(place.home) == []
    assert worktrees_left(place.cache) == worktrees_left(place.home) == []


def _typed(script: str, place: Place) -> subprocess.CompletedProcess[str]:
    """Run a script as a reader would type it, with the program and the project's Python on the path."""
    program = place.state / "bin" / "codeflash-parallel"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m codeflash_parallel "$@"\n', encoding="utf-8"
    )
    program.chmod(0o755)
    path = os.pathsep.join([str(program.parent), str(Path(sys.executable).parent), place.environment["PATH"]])
    own = {"PATH": path, "CODEFLASH_PARALLEL_CACHE_DIR": str(place.cache), "CHECKOUT": str(ROOT)}
    return subprocess.run(
        ["bash", "-x", "-c", script],
        cwd=place.repository,
        env={**place.environment, **own, **BUDGET},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=2 * LONGEST_S,
        check=False,
    )


@pytest.mark.campaign
def test_the_first_command_of_the_readme(tmp_path: Path) -> None:
    if os.environ.get("PIP_NO_INDEX") or shutil.which("git") is None:
        pytest.skip("needs the package index")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    command = next(line for line in readme.splitlines() if "pip install -q . &&" in line)
    git(tmp_path, "clone", "--quiet", str(ROOT), "checkout")
    place = make_place(tmp_path / "user")
    environment = {**place.environment, **BUDGET, "CODEFLASH_PARALLEL_CACHE_DIR": str(place.cache)}

    done = subprocess.run(
        ["bash", "-c", command],
        cwd=tmp_path / "checkout",
        env=environment,
        capture_output=True,
        text=True,
        timeout=3 * LONGEST_S,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-4000:]
    assert "winner: count_what_is_missing" in done.stdout
