"""A serial optimizer loop of somebody else's gains parallel candidates through us."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from harness import FIXTURES, LONGEST_S, ROOT, Place, assert_same, commit_all, copy_tree, make_place, picture

HOST = FIXTURES / "host_loop"
MARKED = re.compile(
    r"^ *# >>> codeflash_parallel\n(.*?)^ *# <<< codeflash_parallel\n", re.MULTILINE | re.DOTALL
)
#: What the host may add to its program.
MOST_LINES = 30


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = make_place(tmp_path / "user")
    copy_tree(HOST / "project", made.repository)
    commit_all(made.repository)
    return made


def run_host(
    program: Path, place: Place, *arguments: str, model: Path = HOST / "proposals"
) -> dict[str, Any]:
    command = [sys.executable, str(program), str(place.repository), "pairs.py::pairs_with_sum"]
    command += ["--model", str(model), *arguments]
    environment = {**place.environment, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command,
        env=environment,
        cwd=place.cwd,
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


#: Right and slower than what is repaired: they only make the race longer.
RIVALS = ("comprehension.py", "two_ends.py")


@pytest.mark.witness
@pytest.mark.slow
@pytest.mark.parametrize(
    "without", [RIVALS, pytest.param((), marks=pytest.mark.campaign)], ids=["few", "all"]
)
def test_serial_and_parallel_branches_give_the_same_winner(
    place: Place, tmp_path: Path, without: tuple[str, ...]
) -> None:
    model = tmp_path / "proposals"
    shutil.copytree(HOST / "proposals", model, ignore=shutil.ignore_patterns(*without))
    serial = run_host(HOST / "host_loop.py", place, model=model)
    before = picture(place.repository)
    parallel = run_host(HOST / "host_loop.py", place, "--parallel-candidates", "2", model=model)
    # repaired because a test failed, then refined because it led
    assert serial["winner"] == "seen_set+repairs+refinements"
    assert (parallel["winner"], parallel["text"]) == (serial["winner"], serial["text"])
    assert min(serial["speedup"], parallel["speedup"]) > 5
    assert_same(before, picture(place.repository))


@pytest.mark.slow
def test_the_parallel_branch_is_short_and_the_program_is_whole_without_it(
    place: Place, tmp_path: Path
) -> None:
    text = (HOST / "host_loop.py").read_text()
    added = [line for block in MARKED.findall(text) for line in block.splitlines() if line.strip()]
    assert 0 < len(added) <= MOST_LINES
    alone = tmp_path / "serial_host.py"
    alone.write_text(MARKED.sub("", text))
    assert "cp." not in alone.read_text()
    assert run_host(alone, place)["winner"] == "seen_set+repairs+refinements"
