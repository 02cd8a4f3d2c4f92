"""Everything stopped, no space left, a clock that jumps: nobody is blamed for it, and nothing is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from harness import (
    Fixture,
    Place,
    assert_nothing_left,
    assert_same,
    load_fixture,
    picture,
    processes_of,
)
from mounts import why_no_mounts

pytestmark = [pytest.mark.slow, pytest.mark.campaign]

#: Seconds for which everything is stopped. The wall deadline of a check is six seconds here.
STOPPED_S = float(os.environ.get("CODEFLASH_PARALLEL_STOPPED_S", "15"))
#: Wall clocks that jump a day at each look, now forward, now back.
STEPPING = """
import itertools, runpy, sys, time
now, now_ns, days = time.time, time.time_ns, itertools.cycle((86400, -86400))
time.time = lambda: now() + next(days)
time.time_ns = lambda: now_ns() + next(days) * 10**9
runpy.run_module("codeflash_parallel", run_name="__main__", alter_sys=True)
"""


@pytest.fixture
def fixture() -> Fixture:
    return load_fixture("clear_winner")


def arguments(fixture: Fixture) -> list[str]:
    functions = ["--function", *fixture.expected["functions"]]
    candidates = ["--candidates", str(fixture.candidates), "-j", "2", "--output-format", "json"]
    return ["check", *functions, *candidates, "--timeout", "1"]


def verdicts(document: dict[str, Any]) -> dict[str, str]:
    return {c["id"]: f"{c['status']} {c['code']}" for c in document["candidates"]}


@pytest.fixture
def place(build: Callable[[Fixture], Place], fixture: Fixture) -> Place:
    return build(fixture)


def _signal_all(place: Place, number: signal.Signals) -> None:
    for line in processes_of(place.cache):
        with suppress(ProcessLookupError):
            os.kill(int(line.split()[0]), number)


def test_everything_stopped_for_a_while(place: Place, fixture: Fixture) -> None:
    expected = verdicts(place.run(*arguments(fixture)).document)
    before = picture(place.repository)
    started = place.start(*arguments(fixture))
    started.wait_until_it_says("start ")
    _signal_all(place, signal.SIGSTOP)
    _signal_all(place, signal.SIGSTOP)  # who was forked between the look and the signal
    started.live_for(STOPPED_S)
    assert started.process.poll() is None
    _signal_all(place, signal.SIGCONT)
    document = started.finish().document
    assert verdicts(document) == expected
    assert_same(before, picture(place.repository))
    assert_nothing_left(place)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    why = (
        why_no_mounts(tmp_path) if os.geteuid() == 0 else "only root may mount a file system that others see"
    )
    if why:
        pytest.skip(why)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.parametrize("moment", ["snapshot", "baseline", "behavior", "start "])
def test_a_disk_that_fills_up_loses_nothing(moment: str, place: Place, fixture: Fixture, disk: Path) -> None:
    place = replace(place, cache=disk)
    expected = verdicts(place.run(*arguments(fixture)).document)
    before = picture(place.repository)
    started = place.start(*arguments(fixture))
    started.wait_until_it_says(moment)
    _fill(disk / "filler")
    document = started.finish().document
    codes = {c["code"] for c in document["candidates"]}
    assert document["error"] is None or document["error"]["code"] in {"DISK_FULL", "CACHE_UNWRITABLE"}
    assert codes <= {"INFRA_DISK", "CANCELLED", *(text.split()[1] for text in expected.values())}
    assert processes_of(place.cache) == []
    (disk / "filler").unlink()
    name = document["run_id"] or "last"
    again = place.run("resume", name, "--output-format", "json")
    if "no run" in again.errors:  # there was not even room for its beginning
        again = place.run(*arguments(fixture))
    assert verdicts(again.document) == expected, again.errors
    assert_same(before, picture(place.repository))
    assert_nothing_left(place)


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file, suppress(OSError):
        for size in (1 << 20, 4096):
            with suppress(OSError):
                while True:
                    file.write(b"x" * size)


def test_a_clock_that_jumps_a_day_at_each_look(place: Place, fixture: Fixture) -> None:
    expected = verdicts(place.run(*arguments(fixture)).document)
    command = place.command(*arguments(fixture))
    done = subprocess.run(
        [sys.executable, "-c", STEPPING, *command[3:]],
        cwd=place.cwd,
        env=dict(place.environment),
        capture_output=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    document = json.loads(done.stdout)
    assert verdicts(document) == expected
    assert_nothing_left(place)
