"""Line profiles of captured calls: whatever tracer an interpreter has, it counts the same hits."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from runner_lab import PYTHONS, Lab, named

MODULE = '''
import functools, threading

def tweak(function):
    @functools.wraps(function)
    def inner(*args):
        return function(*args)
    return inner

class Sorter:
    @staticmethod
    def key(x):
        return -x

    @tweak
    def order(self, items):
        """Sort in a roundabout way."""
        total = 0
        for item in items:
            if item % 2:
                total += helper(item)
            else:
                total += (lambda x:
                          x + 1)(item)
        squares = [
            item * item
            for item in items
        ]
        gen = (item
               for item in squares
               if item > 4)
        try:
            if total > 3:
                raise ValueError
        except ValueError:
            total = 3
        def inner(n):
            if n == 0:
                return total
            return inner(n - 1)
        return inner(2) + sum(gen) + sum(map(Sorter.key, items))

def helper(x):
    y = x
    while y > 3:
        y -= 1
    return y

def fib(n):
    if n < 2:
        return n
    return fib(n - 1) + fib(n - 2)

def gen(n):
    for i in range(n):
        yield i
        if i > 2:
            raise KeyError(i)

async def wait(n):
    import asyncio
    for _ in range(n):
        await asyncio.sleep(0)
    return n

def threads():
    def add():
        total.append(1)
    total = []
    workers = [threading.Thread(target=add) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return len(total)

def oneliners(n):
    for i in range(n): pass
    while n: n -= 1
    return [i for i in range(3)], {i: i for i in range(3)}, sum(i for i in range(3) if i)

def fail(n):
    if n:
        fail_again(n)
    return n

def fail_again(n):
    raise KeyError(n)
'''

TRACERS = ("sys.settrace", "line_profiler")


@cache
def has(python: str, tracer: str) -> bool:
    code = {
        "sys.settrace": "pass",
        "sys.monitoring": "import sys; sys.monitoring",
        "line_profiler": "import line_profiler",
    }[tracer]
    return subprocess.run([python, "-c", code], capture_output=True, check=False, timeout=60).returncode == 0


@pytest.fixture(params=PYTHONS, ids=lambda path: path.split("/")[-3])
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Lab:
    made = Lab(tmp_path, python=request.param)
    made.file("mod.py", MODULE)
    return made


def profile(lab: Lab, tracer: str, **more: Any) -> dict[str, Any]:
    (record,) = named(lab.run("profile", tracer=tracer, **more), "profile")
    return dict(record)


def hits(record: dict[str, Any]) -> dict[int, int]:
    return {line["line"]: line["hits"] for line in record["lines"]}


def fill(lab: Lab) -> None:
    setup = "from mod import Sorter"
    order, fib, gen, wait = (lab.target(name) for name in ("Sorter.order", "fib", "gen", "wait"))
    lab.call(order, "Sorter(), [3, 1, 2, 8]", setup=setup, via="inner")
    lab.call(order, "Sorter(), []", setup=setup, via="inner")
    lab.call(fib, "5")
    lab.call(gen, "2", shape="generator")
    lab.call(gen, "9", shape="generator")
    lab.call(wait, "3", shape="coroutine")
    lab.call(lab.target("fail"), "1")
    lab.call(lab.target("oneliners"), "4")


def test_all_tracers_count_the_same(lab: Lab) -> None:
    fill(lab)
    there = [tracer for tracer in TRACERS if has(lab.python, tracer)]
    records = {tracer: profile(lab, tracer) for tracer in there}
    assert [record["tracer"] for record in records.values()] == there
    expected = hits(records["sys.settrace"])
    lines = MODULE.splitlines()
    fib_line = lines.index("    if n < 2:") + 1
    assert expected[fib_line] == 15
    assert expected[lines.index("            if item % 2:") + 1] == 4
    # From Python 3.12 on line_profiler does not count the turns of a loop that stays on one line.
    blurred = looping_lines() if has(lab.python, "sys.monitoring") else set()
    for tracer, record in records.items():
        got = hits(record)
        differing = {n for n in expected | got if expected.get(n) != got.get(n)}
        assert differing - (blurred if tracer == "line_profiler" else set()) == set(), (tracer, expected, got)


def looping_lines() -> set[int]:
    lines = MODULE.splitlines()
    first = lines.index("def oneliners(n):") + 1
    return {lines.index("        gen = (item") + 1, first + 1, first + 2, first + 3}


def test_our_own_tracer_sees_threads(lab: Lab) -> None:
    lab.call(lab.target("threads"), "")
    line = MODULE.splitlines().index("        total.append(1)") + 1
    assert hits(profile(lab, "sys.settrace"))[line] == 3


def test_a_profile_names_lines_and_times(lab: Lab) -> None:
    fib = lab.target("fib")
    lab.call(fib, "6")
    record = profile(lab, "auto")
    assert {line["path"] for line in record["lines"]} == {"mod.py"}
    assert [line["text"] for line in record["lines"]] == [
        "    if n < 2:",
        "        return n",
        "    return fib(n - 1) + fib(n - 2)",
    ]
    assert all(line["ns"] > 0 for line in record["lines"])
    best = next(t for t in ("line_profiler", "sys.settrace") if has(lab.python, t))
    assert (record["tracer"], record["calls"]) == (best, 1)


def test_helpers_are_profiled_where_they_are_named(lab: Lab) -> None:
    lab.call(lab.target("Sorter.order"), "Sorter(), [5]", setup="from mod import Sorter", via="inner")
    line = MODULE.splitlines().index("        y -= 1") + 1
    assert line not in hits(profile(lab, "auto"))
    assert hits(profile(lab, "auto", helpers=[{"path": "mod.py", "qualname": "helper"}]))[line] == 2


def test_calls_are_evenly_spread(lab: Lab) -> None:
    fib = lab.target("fib")
    for _ in range(20):
        lab.call(fib, "1")
    record = profile(lab, "sys.settrace", max_calls=5)
    assert (record["calls"], next(iter(hits(record).values()))) == (5, 5)


def test_a_target_that_is_gone_gives_an_empty_profile(lab: Lab) -> None:
    lab.call(lab.target("gone"), "1")
    records = lab.run("profile", tracer="auto")
    assert named(records, "profile")[0]["lines"] == []
    assert named(records, "unreplayable")[0]["i"] == 0
