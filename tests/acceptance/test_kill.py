"""kill -9, Ctrl-C and SIGTERM at random moments: the user's repository is untouched, the next start cleans up."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import (
    LONGEST_S,
    Fixture,
    Place,
    Started,
    assert_nothing_left,
    assert_same,
    load_fixture,
    picture,
    processes_of,
    wait_for,
)

pytestmark = pytest.mark.slow

#: How many of each; the gate's is one.
COUNT = int(os.environ.get("CODEFLASH_PARALLEL_KILLS", "1"))
#: A run of the project below lasts about as long on an idle machine.
SPAN_S = 10.0
#: Seeds differ from run to run of this suite unless one is named; it is part of the test's id.
SEED = int(os.environ.get("CODEFLASH_PARALLEL_KILL_SEED", "1"))


@pytest.fixture
def fixture() -> Fixture:
    return load_fixture("clear_winner")


def start(place: Place, fixture: Fixture) -> Started:
    return place.start(*arguments(fixture))


def arguments(fixture: Fixture, command: str = "run") -> list[str]:
    functions = ["--function", *fixture.expected["functions"]]
    return [
        command,
        *functions,
        "--candidates",
        str(fixture.candidates),
        "-j",
        "2",
        "--output-format",
        "json",
    ]


@pytest.mark.parametrize("number", range(COUNT))
def test_kill(number: int, build: Callable[[Fixture], Place], fixture: Fixture) -> None:
    place = build(fixture)
    before = picture(place.repository)
    started = start(place, fixture)
    started.live_for(random.Random(f"kill {SEED} {number}").uniform(0, SPAN_S))
    started.process.kill()
    started.finish()
    assert wait_for(lambda: not processes_of(place.cache), LONGEST_S), processes_of(place.cache)
    assert_same(before, picture(place.repository))
    _assert_next_start_is_clean(place, fixture)
    assert_same(before, picture(place.repository))


@pytest.mark.parametrize("number", range(COUNT))
def test_ctrl_c(number: int, build: Callable[[Fixture], Place], fixture: Fixture) -> None:
    place = build(fixture)
    before = picture(place.repository)
    started = start(place, fixture)
    started.wait_until_it_says("snapshot")
    started.live_for(random.Random(f"int {SEED} {number}").uniform(0, SPAN_S))
    _assert_ends_in_order(started, signal.SIGINT, 130)
    assert_same(before, picture(place.repository))
    assert_nothing_left(place)


@pytest.mark.witness
def test_termination(build: Callable[[Fixture], Place], fixture: Fixture) -> None:
    place = build(fixture)
    before = picture(place.repository)
    started = start(place, fixture)
    started.wait_until_it_says("baseline")
    _assert_ends_in_order(started, signal.SIGTERM, 143)
    assert_same(before, picture(place.repository))
    assert_nothing_left(place)


@pytest.mark.witness
def test_second_ctrl_c(build: Callable[[Fixture], Place], fixture: Fixture) -> None:
    """The second one ends it at once; what is left is for the next start."""
    place = build(fixture)
    before = picture(place.repository)
    started = start(place, fixture)
    started.wait_until_it_says("baseline")
    started.send(signal.SIGINT)
    started.send(signal.SIGINT)
    assert started.finish().status == 130
    assert wait_for(lambda: not processes_of(place.cache), LONGEST_S), processes_of(place.cache)
    assert_same(before, picture(place.repository))
    _assert_next_start_is_clean(place, fixture)


def test_kill_of_every_process(build: Callable[[Fixture], Place], fixture: Fixture) -> None:
    """Not even the launcher survives to tidy up: as when the machine runs out of memory."""
    place = build(fixture)
    before = picture(place.repository)
    started = start(place, fixture)
    started.wait_until_it_says("behavior")
    started.process.kill()
    for process in processes_of(place.cache):
        Path("/proc", process.split()[0]).exists() and os.kill(int(process.split()[0]), signal.SIGKILL)
    started.finish()
    assert wait_for(lambda: not processes_of(place.cache), LONGEST_S), processes_of(place.cache)
    assert_same(before, picture(place.repository))
    _assert_next_start_is_clean(place, fixture)


def _assert_ends_in_order(started: Started, number: signal.Signals, status: int) -> None:
    """A signal ends a run soon, with its own exit code and a sound document; a finished run is finished."""
    started.send(number)
    finished = started.finish()
    data = finished.document
    assert "Traceback" not in finished.errors
    if finished.status == 0:
        assert data["complete"]
        return
    assert finished.status == status, str(finished)
    assert not data["complete"]
    assert data["error"]["family"] == "interrupted"
    assert data["error"]["code"] == number.name


def _assert_next_start_is_clean(place: Place, fixture: Fixture) -> None:
    finished = place.run(*arguments(fixture, "check"))
    assert finished.status == 0, (finished.document["error"], finished.errors)
    assert_nothing_left(place)
