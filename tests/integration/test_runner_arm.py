"""An arm of the race: a warm template, units forked from it, blocks served over the control channel."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from runner_lab import PYTHONS, Lab

MODULE = """
import asyncio, os, signal, threading, time

def work(items):
    items.sort()
    return items

def lazy(n):
    return (burn(5) for _ in range(n))

def burn(ms):
    end = time.process_time() + ms / 1000
    while time.process_time() < end:
        pass
    return ms

async def slow(n):
    for _ in range(n):
        await asyncio.sleep(0)
    return n

async def agen(n):
    for i in range(n):
        yield i

def fail(x):
    raise ValueError(x)

def die(how):
    if how == "exit":
        os._exit(3)
    if how == "system":
        raise SystemExit(4)
    os.kill(os.getpid(), signal.SIGKILL)

SEEN = []

def remember(x):
    SEEN.append(x)
    return len(SEEN)

def nothing(x):
    return x
"""


@pytest.fixture(params=PYTHONS, ids=lambda path: path.split("/")[-3])
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Lab:
    made = Lab(tmp_path, python=request.param)
    made.file("mod.py", MODULE)
    return made


def group(*calls: int) -> dict[str, Any]:
    return {"name": "group", "calls": list(calls), "tests": []}


def test_a_unit_serves_blocks(lab: Lab) -> None:
    work = lab.target("work")
    calls = [lab.call(work, f"[3, 1, {n}]") for n in range(3)]
    core = min(os.sched_getaffinity(0))
    with lab.arm([group(*calls), group(calls[0])]) as arm:
        ready = arm.hear()
        assert ready == {"t": "ready", "groups": 2, "calls": [3, 1], "twins": [0, 0], "skipped": {}}
        unit = arm.ask(op="unit", core=core, unit=0)
        assert os.sched_getaffinity(unit["pid"]) == {core}
        assert os.sched_getaffinity(arm.process.pid) == os.sched_getaffinity(0)
        first, again = arm.block(0, 30), arm.block(0, 30)
        assert (first["inputs"], first["raised"]) == (3, False)
        assert first["digest"] == again["digest"] != arm.block(1, 3)["digest"]
        assert arm.block(0, 0)["inputs"] == 0
        assert first["digest"] != arm.block(0, 3, start=1)["digest"]
        reaped = arm.ask(op="end")
        assert (reaped["t"], reaped["status"]) == ("reaped", 0)
        assert reaped["cpu_ns"] > 0
        arm.say(op="quit")
        assert arm.process.wait(timeout=20) == 0


def test_every_unit_starts_from_the_same_state(lab: Lab) -> None:
    call = lab.call(lab.target("remember"), "1")
    with lab.arm([group(call)]) as arm:
        arm.hear()
        digests = []
        for unit in range(2):
            arm.ask(op="unit", core=None, unit=unit)
            digests.append([arm.block(0, 2)["digest"], arm.block(0, 2)["digest"]])
            arm.ask(op="end")
        assert digests[0] == digests[1]
        assert digests[0][0] != digests[0][1]


def cpu_ns(pid: int) -> int:
    return time.clock_gettime_ns((~pid << 3) | 2)


def test_lazy_results_are_forced_before_done(lab: Lab) -> None:
    calls = [lab.call(lab.target("lazy"), "4"), lab.call(lab.target("burn"), "20")]
    with lab.arm([group(call) for call in calls]) as arm:
        arm.hear()
        pid = arm.ask(op="unit", core=None, unit=0)["pid"]
        for number in range(2):
            arm.ask(op="block", group=number, calls=3)
            before = cpu_ns(pid)
            assert arm.ask(op="go") == {"t": "done"}
            spent = cpu_ns(pid) - before
            assert spent > 55_000_000, spent
            assert arm.ask(op="check")["ns"] < 20_000_000


def test_coroutines_and_async_generators_are_awaited(lab: Lab) -> None:
    slow, agen, nothing = lab.target("slow"), lab.target("agen"), lab.target("nothing")
    calls = [
        lab.call(slow, "3", shape="coroutine"),
        lab.call(agen, "2", shape="asyncgen"),
        lab.call(nothing, "9"),
    ]
    with lab.arm([group(*calls)]) as arm:
        arm.hear()
        arm.ask(op="unit", core=None, unit=0)
        check = arm.block(0, 9)
        assert (check["inputs"], check["raised"]) == (3, False)
        assert arm.block(0, 9)["digest"] == check["digest"]


def test_a_lot_draws_outcomes_that_are_looked_at(lab: Lab) -> None:
    nothing = lab.target("nothing")
    calls = [lab.call(nothing, str(n)) for n in range(40)]
    found: list[dict[str, Any]] = []
    with lab.arm([group(*calls)]) as arm:
        arm.hear()
        arm.ask(op="unit", core=None, unit=0)
        for lot in ("", "one", "one", "other"):
            # In each block another cycle is kept: the places are those of the inputs.
            arm.ask(op="block", group=0, calls=400, start=40 * len(found))
            arm.ask(op="go")
            found.append(arm.ask(op="check", lot=lot, most=4))

    assert [checked["inputs"] for checked in found] == [40, 4, 4, 4]
    assert found[1]["digest"] == found[2]["digest"]
    assert len({checked["digest"] for checked in found}) == 3


def test_raising_is_an_outcome(lab: Lab) -> None:
    calls = [lab.call(lab.target("fail"), "1"), lab.call(lab.target("die"), "'system'")]
    with lab.arm([group(*calls)]) as arm:
        arm.hear()
        arm.ask(op="unit", core=None, unit=0)
        assert arm.block(0, 10)["raised"] is True


@pytest.mark.parametrize(("how", "status"), [("exit", 3), ("kill", -9)])
def test_the_template_survives_its_units(lab: Lab, how: str, status: int) -> None:
    calls = [lab.call(lab.target("die"), repr(how)), lab.call(lab.target("nothing"), "1")]
    with lab.arm([group(call) for call in calls]) as arm:
        arm.hear()
        arm.ask(op="unit", core=None, unit=0)
        arm.ask(op="block", group=0, calls=1)
        answer = arm.ask(op="go")
        assert (answer["t"], answer["status"]) == ("reaped", status)
        assert arm.ask(op="end")["t"] == "reaped"
        arm.ask(op="unit", core=None, unit=1)
        assert arm.block(1, 5)["inputs"] == 1
        assert arm.ask(op="end")["status"] == 0


def test_a_unit_killed_while_idle_is_told_with_the_next_order(lab: Lab) -> None:
    call = lab.call(lab.target("nothing"), "1")
    with lab.arm([group(call)]) as arm:
        arm.hear()
        pid = arm.ask(op="unit", core=None, unit=0)["pid"]
        arm.block(0, 1)
        os.kill(pid, signal.SIGKILL)
        answer = arm.ask(op="block", group=0, calls=1)
        assert (answer["t"], answer["status"]) == ("reaped", -9)


def test_calls_that_cannot_be_made_are_named(lab: Lab) -> None:
    nothing, gone = lab.target("nothing"), lab.target("gone")
    calls = [lab.call(nothing, "1"), lab.call(gone, "1"), lab.call(nothing, "1", blob="no pickle"), 99]
    with lab.arm([group(*calls)]) as arm:
        ready = arm.hear()
        assert (ready["calls"], [*ready["skipped"]]) == ([1], ["1", "2", "99"])


BREAKS = """
class Breaks:
    def __reduce__(self):
        return {}.__getitem__, ("no such key",)
"""


def test_arguments_of_which_the_copy_raises_a_key_error_are_named(lab: Lab) -> None:
    lab.file("mod.py", MODULE + BREAKS)
    nothing = lab.target("nothing")
    calls = [lab.call(nothing, "1"), lab.call(nothing, "__import__('mod').Breaks()")]
    with lab.arm([group(*calls)]) as arm:
        ready = arm.hear()
        assert (ready["calls"], [*ready["skipped"]]) == ([1], ["1"])
        arm.ask(op="unit", core=None, unit=0)
        assert arm.block(0, 4)["inputs"] == 1


def test_without_values_only_raising_is_an_outcome(lab: Lab) -> None:
    calls = [lab.call(lab.target("nothing"), text) for text in ("1", "1.0")]
    calls.append(lab.call(lab.target("fail"), "1"))
    with lab.arm([group(call) for call in calls], compare="returns") as arm:
        arm.hear()
        arm.ask(op="unit", core=None, unit=0)
        one, other, raised = (arm.block(number, 3)["digest"] for number in range(3))
        assert one == other != raised


def test_the_template_leaves_when_the_evaluator_is_gone(lab: Lab) -> None:
    call = lab.call(lab.target("nothing"), "1")
    with lab.arm([group(call)]) as arm:
        arm.hear()
        arm.ask(op="unit", core=None, unit=0)
        arm.close()
        assert arm.process.wait(timeout=20) == 0


TESTS = """
import unittest, pytest

COUNTS = {"session": 0, "function": 0, "calls": 0}

@pytest.fixture(scope="session")
def wide():
    COUNTS["session"] += 1
    yield COUNTS
    open("torn-down", "a").write("x")

@pytest.fixture
def narrow(wide):
    COUNTS["function"] += 1
    return COUNTS

def test_counts(narrow):
    COUNTS["calls"] += 1
    assert narrow["function"] == narrow["calls"]
    assert narrow["session"] == 1

@pytest.mark.parametrize("n", [1, 2])
def test_many(n, tmp_path):
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").write_text("x")

def test_fails_at_last(wide):
    assert COUNTS["calls"] < 3

class TestOld(unittest.TestCase):
    def setUp(self):
        self.ready = 1
    def test_it(self):
        self.assertEqual(self.ready, 1)
        self.ready = 2
"""


def test_whole_tests_are_run_again_and_again(lab: Lab) -> None:
    lab.file("test_it.py", TESTS)
    names = ["test_counts", "test_many[1]", "TestOld::test_it"]
    groups = [{"name": "a", "calls": [], "tests": [f"test_it.py::{name}" for name in [*names, "test_gone"]]}]
    groups.append(
        {"name": "b", "calls": [], "tests": ["test_it.py::test_counts", "test_it.py::test_fails_at_last"]}
    )
    more = {"args": ["-q", "-p", "no:cacheprovider", "test_it.py"], "select": None, "wrap": "none"}
    with lab.arm(groups, work="tests", **more) as arm:
        ready = arm.hear()
        assert (ready["calls"], [*ready["skipped"]]) == ([3, 2], ["test_it.py::test_gone"])
        for unit in range(2):
            assert arm.ask(op="unit", core=None, unit=unit)["t"] == "unit"
            first, again = arm.block(0, 1), arm.block(0, 4)
            assert (first["raised"], first["inputs"]) == (False, 3)
            assert first["digest"] == again["digest"]
            assert arm.block(0, 0)["inputs"] == 0
            failed = arm.block(1, 2)
            assert failed["raised"] is True
            assert arm.ask(op="end")["status"] == 0
            assert (lab.project / "torn-down").read_text() == "x" * (unit + 1)
        arm.say(op="quit")
        assert arm.process.wait(timeout=20) == 0


TURNS = """
import pytest
from pathlib import Path

@pytest.fixture
def own():
    yield
    with Path("undone").open("a") as file:
        file.write("x")

@pytest.mark.parametrize("size", [7])
def test_it(own, size):
    assert size == 7
"""


def test_single_tests_of_several_groups_take_turns(lab: Lab) -> None:
    names = ["test_one.py", "test_other.py"]
    groups = []
    for name in names:
        lab.file(name, TURNS)
        groups.append({"name": name, "calls": [], "tests": [f"{name}::test_it[7]"]})
    more = {"args": ["-q", "-p", "no:cacheprovider", *names], "select": None, "wrap": "none"}
    with lab.arm(groups, work="tests", **more) as arm:
        assert arm.hear()["calls"] == [1, 1]
        assert arm.ask(op="unit", core=None, unit=0)["t"] == "unit"
        blocks = [(group, arm.block(group, 2)) for group in (0, 1, 0, 0, 1)]
        assert arm.ask(op="end")["status"] == 0
        arm.say(op="quit")
        assert arm.process.wait(timeout=20) == 0
    assert not any(block["raised"] for _, block in blocks)
    assert len({(group, block["digest"]) for group, block in blocks}) == 2
    assert (lab.project / "undone").read_text() == "x" * 2 * len(blocks)


def test_results_for_a_judge_are_looked_at_and_told_after_a_block(lab: Lab) -> None:
    calls = [lab.call(lab.target("work"), f"[3, 1, {n}]") for n in range(2)]
    failing = lab.call(lab.target("fail"), "1")
    lazy = lab.call(lab.target("lazy"), "1")
    with lab.arm([group(*calls, failing, lazy)], compare="judged") as arm:
        arm.hear()
        arm.ask(op="unit", core=None, unit=0)
        first, second = arm.block(0, 9), arm.block(0, 9, start=3)
        looked = arm.ask(op="look", places=[0, 1, 2, 3, 4])["outcomes"]
        assert [number for number, _ in looked] == [
            lazy,
            *calls,
        ]  # from the third one on, without what raised
        assert len({digest for _, digest in looked}) == 3
        assert first["digest"] != second["digest"]  # where it raises is compared
        told = [arm.ask(op="tell", number=number) for number in (calls[0], lazy)]
        assert told[0] == {"t": "told", "plain": '["list", 0, 1, 3]', "untold": ""}
        assert told[1]["plain"] == ""
        assert "type" in told[1]["untold"]
