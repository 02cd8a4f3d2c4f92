"""Races of identical code with the real guest: what is recorded, what is left, and how it is ended."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from random import Random

import pytest
from harness import processes_of

from codeflash_parallel.benchmark.fitness import ARMS, fitness
from codeflash_parallel.engine import rehearsal
from codeflash_parallel.engine.rehearsal import LEAST_ROUNDS, WORKS, Venue, rehearse
from codeflash_parallel.model.errors import EnvironmentFault
from codeflash_parallel.model.settings import Settings
from codeflash_parallel.process.quiet import HostQuiet, NotKept

pytestmark = [pytest.mark.engine]


def venue(tmp_path, **more):
    return Venue(
        **{
            "interpreter": Path(sys.executable),
            "cache": tmp_path,
            "seconds": 0.1,
            "random": Random(1),
            "quiet": NotKept(),
        }
        | more
    )


def left_in(cache):
    return [path.name for path in cache.iterdir() if not path.name.startswith("guest-")]


@pytest.mark.anyio
async def test_identical_arms_are_recorded_and_nothing_is_left(tmp_path, monkeypatch):
    """Of one workload: `nox -s campaign` has `doctor --race` record them all."""
    work, *_ = WORKS
    monkeypatch.setattr(rehearsal, "WORKS", {work: WORKS[work]})
    going = []
    (tmp_path / "rehearsal-of-somebody-killed" / "0").mkdir(parents=True)

    (tmp_path / "locks").mkdir()
    quiet = HostQuiet(tmp_path / "locks")

    recorded = await rehearse(Settings(confidence=0.95), venue(tmp_path, quiet=quiet), going.append)
    shutil.rmtree(tmp_path / "locks")

    assert len(quiet.take_intervals().exclusive) == 1  # nobody's checks meanwhile

    assert [one.work for one in recorded] == [work]
    assert {one.work for one in going} == {work}
    for one in recorded:
        assert one.plan.confidence == 0.95
        assert sum(len(layout.rows) for layout in one.layouts) >= LEAST_ROUNDS
        assert all(len(row) == ARMS for layout in one.layouts for row in layout.rows)
        assert all(layout.start_ns > 0 < layout.round_ns for layout in one.layouts)
        found = fitness(one, partial(range, 2), partial(range, 1), Random(1))
        assert found.campaigns == 2
        assert found.wall_per_cpu > 0.9
    assert left_in(tmp_path) == []


@pytest.mark.anyio
async def test_an_interpreter_that_cannot_run_tests_is_said(tmp_path):
    nothing = tmp_path / "python"
    nothing.write_text("#!/bin/sh\necho no such thing >&2\nexit 1\n")
    nothing.chmod(0o755)
    (tmp_path / "cache").mkdir()

    with pytest.raises(EnvironmentFault, match="tests of the rehearsal do not run: no such thing"):
        await rehearse(Settings(), venue(tmp_path / "cache", interpreter=nothing), lambda _going: None)
    assert left_in(tmp_path / "cache") == []


def doctor(repository, cache, *arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "codeflash_parallel", "doctor", "--race", "--cache-dir", str(cache), *arguments],
        cwd=repository, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.fixture
def repository(tmp_path):
    root = tmp_path / "repository"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    subprocess.run(["git", "init", "--quiet", str(root)], check=True, env=environment)
    return root


@pytest.mark.witness
def test_ctrl_c_leaves_nothing(repository, tmp_path):
    cache = tmp_path / "cache"
    with doctor(repository, cache, "--python", sys.executable) as started:
        for line in started.stderr:
            if "timed for" in line:
                break
        started.send_signal(signal.SIGINT)
        said = started.stderr.read()
        started.wait()

    assert started.returncode == 130
    assert said == "error: Interrupted.\n"
    assert left_in(cache) == []
    assert processes_of(str(cache)) == []


def test_what_is_to_be_done_first_comes_first(repository, tmp_path):
    with doctor(repository, tmp_path / "cache", "--python", "/bin/false", "--output-format", "json") as done:
        document = json.loads(done.stdout.read())

    assert done.returncode == 4
    assert document["race"] == []
    assert "not tried" in {finding["name"]: finding["value"] for finding in document["findings"]}["race"]


@pytest.mark.campaign
def test_the_whole_takes_a_minute_and_is_told_to_programs(repository, tmp_path):
    with doctor(
        repository, tmp_path / "cache", "--python", sys.executable, "--output-format", "json"
    ) as done:
        document = json.loads(done.stdout.read())

    assert done.returncode == 0
    assert [one["work"] for one in document["race"]] == list(WORKS)
    for one in document["race"]:
        assert one["campaigns"] >= 20
        assert one["false_wins"] / one["campaigns"] <= one["false_bound"] < 0.2
        assert [needed["gain"] for needed in one["needed"]] == [0.02, 0.05, 0.1]
