"""The skill's commands, typed as they stand into a shell of 30 s and 4,000 bytes: they find and apply a winner."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aftermath import processes_of
from harness import (
    FIXTURES,
    ROOT,
    Place,
    assert_nothing_left,
    commit_all,
    copy_tree,
    git,
    make_place,
    wait_for,
)

pytestmark = pytest.mark.slow

SKILL = (ROOT / "skills" / "race-candidates" / "SKILL.md").read_text(encoding="utf-8")
#: The commands, in their order.
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", SKILL, flags=re.MULTILINE | re.DOTALL)
TARGET = "taskgraph/ordering.py::topological_sort"
#: One that is faster, and one that gives another order.
REWRITES = {"set": "look_up_in_a_set.patch", "order": "depth_first.py"}
#: What a shell of an agent allows: seconds, and bytes of both streams together.
LONGEST_S, MOST_BYTES = 30.0, 10_000
#: On a machine that other tests use, the automatic budget may be too short.
BUDGET = {"CODEFLASH_PARALLEL_TIME_BUDGET": "150"}


@dataclass
class Agent:
    """An agent with a shell; `known` has what stands for capitals in the skill."""

    place: Place
    environment: dict[str, str]
    known: dict[str, str] = field(default_factory=dict)

    def types(self, block: str) -> subprocess.CompletedProcess[str]:
        for name, value in self.known.items():
            block = re.sub(rf"\b{name}\b", value, block)
        done = subprocess.run(
            ["bash", "-c", block],
            cwd=self.place.repository,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
            check=False,
        )
        assert len((done.stdout + done.stderr).encode()) < MOST_BYTES
        return done

    def waits(self, block: str) -> subprocess.CompletedProcess[str]:
        for _ in range(20):
            if (done := self.types(block)).returncode != 6:  # the time was up
                return done
        pytest.fail("There was no verdict.")


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    """Give an agent in the demonstration's repository; its daemon is ended behind it."""
    place = make_place(tmp_path / "user")
    copy_tree(FIXTURES / "demonstration" / "project", place.repository)
    commit_all(place.repository)
    program = place.state / "bin" / "codeflash-parallel"
    program.parent.mkdir()
    started = place.state / "pids"
    program.write_text(
        f'#!/bin/sh\n[ "$1" = serve ] && echo $$ >> {shlex.quote(str(started))}\n'
        f'exec {shlex.quote(sys.executable)} -m codeflash_parallel "$@"\n',
        encoding="utf-8",
    )
    program.chmod(0o755)
    path = os.pathsep.join([str(program.parent), str(Path(sys.executable).parent), place.environment["PATH"]])
    own = {"PATH": path, "CODEFLASH_PARALLEL_CACHE_DIR": str(place.cache)}
    yield Agent(place, {**place.environment, **own, **BUDGET})
    for pid in map(int, started.read_text().split() if started.exists() else ()):
        os.kill(pid, signal.SIGTERM)
    assert wait_for(lambda: not processes_of(place.cache), LONGEST_S)
    assert_nothing_left(place)


def write_variants(folder: Path) -> None:
    candidates = FIXTURES / "demonstration" / "candidates"
    git(folder / "try-set", "apply", str(candidates / REWRITES["set"]))
    module = folder / "try-order" / "taskgraph" / "ordering.py"
    head = module.read_text(encoding="utf-8").partition("def topological_sort")[0]
    module.write_text(head + (candidates / REWRITES["order"]).read_text(encoding="utf-8"), encoding="utf-8")


def test_the_skill_finds_and_applies_the_winner(agent: Agent) -> None:
    doctor, serve, make, submit, wait, show, apply, tidy = BLOCKS
    assert len(SKILL.splitlines()) < 150
    assert agent.types(doctor).returncode == 0
    assert agent.types(serve).returncode == 0
    assert agent.types(make).returncode == 0
    write_variants(agent.place.repository.parent)

    agent.known["PATH::FUNCTION"] = TARGET
    submitted = agent.types(submit)
    assert submitted.returncode == 0, submitted.stderr
    agent.known["JOB"] = re.findall(r"\d+-[0-9a-f]{8}", submitted.stdout)[0]
    done = agent.waits(wait)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "- try_set: won" in done.stdout
    assert "- try_order: rejected VALUE_DIFFERS" in done.stdout
    agent.known["RUN"] = re.findall(r"next: codeflash-parallel apply (\S+)", done.stdout)[0]
    agent.known["CANDIDATE"] = "try_order"
    assert "gives another value" in agent.types(show).stdout

    assert agent.types(apply).returncode == 0
    assert git(agent.place.repository, "status", "--short").strip() == "M taskgraph/ordering.py"
    assert agent.types(tidy).returncode == 0
    assert len(git(agent.place.repository, "worktree", "list").splitlines()) == 1
