"""The guest tells which targets each test executes: nested calls too, and what tests share apart."""

from __future__ import annotations

from pathlib import Path

import pytest
from guest_runs import PYTHONS, GuestRun, run_guest, write_files

MODULE = """
import asyncio
def low(x): return x + 1
def high(x): return low(x) * 2
def items(n):
    for i in range(n): yield low(i)
async def late(x):
    await asyncio.sleep(0)
    return low(x)
async def later(x): return await late(x)
async def stream(n):
    for i in range(n): yield i
"""
NAMES = ("low", "high", "items", "late", "later", "stream")


def touched(tmp_path: Path, suite: str, python: str = PYTHONS[0], **fields: str) -> dict[str, set[str]]:
    tmp_path.mkdir(exist_ok=True)
    root = write_files(tmp_path / "root", {"mod.py": MODULE, "test_it.py": suite})
    targets = tuple(f"mod.py::{name}" for name in NAMES)
    run = run_guest(tmp_path, root, python=python, targets=targets, **{"wrap": "capture", **fields})
    assert set(run.outcomes.values()) == {"passed"}, run.output
    return names_of(run)


def names_of(run: GuestRun) -> dict[str, set[str]]:
    records = run.named("touched")
    return {r["id"].partition("::")[2]: {NAMES[target] for target in r["targets"]} for r in records}


@pytest.mark.parametrize("python", PYTHONS)
def test_nested_calls_count_for_the_test_around_them(tmp_path: Path, python: str) -> None:
    suite = """
import asyncio, threading
import mod
def test_nested(): assert mod.high(1) == 4
def test_none(): pass
def test_generator(): assert list(mod.items(2)) == [1, 2]
def test_tasks():
    async def both(): return await asyncio.gather(mod.later(1), mod.late(2))
    assert asyncio.run(both()) == [2, 3]
def test_stream():
    async def read(): return [x async for x in mod.stream(2)]
    assert asyncio.run(read()) == [0, 1]
def test_thread():
    thread = threading.Thread(target=mod.high, args=(1,))
    thread.start()
    thread.join()
"""
    assert touched(tmp_path, suite, python) == {
        "test_nested": {"high", "low"},
        "test_generator": {"items", "low"},
        "test_tasks": {"later", "late", "low"},
        "test_stream": {"stream"},
        "test_thread": {"high", "low"},
    }


@pytest.mark.parametrize("python", PYTHONS)
def test_what_tests_share_counts_for_none_of_them_alone(tmp_path: Path, python: str) -> None:
    suite = """
import unittest
import pytest
import mod
@pytest.fixture
def own(): return mod.high(1)
@pytest.fixture(scope="module")
def shared(): return list(mod.items(1))
@pytest.fixture(scope="session")
def asked_late(): return [x for x in [1] if mod.late(x).close() is None and next(mod.items(1))]
def test_own(own): assert own == 4
def test_shared(shared): assert shared == [1]
def test_late(request): assert request.getfixturevalue("asked_late") == [1]
"""
    assert touched(tmp_path, suite, python) == {"test_own": {"high", "low"}, "": {"items", "low"}}


def test_class_setups_and_teardowns_are_shared(tmp_path: Path) -> None:
    suite = """
import unittest
import pytest
import mod
class TestIt(unittest.TestCase):
    @classmethod
    def setUpClass(cls): cls.value = mod.high(1)
    def setUp(self): self.mine = list(mod.items(1))
    def test_it(self): assert self.value == 4
@pytest.fixture
def cleaning():
    yield
    mod.high(1)
def test_cleaned(cleaning): pass
"""
    assert touched(tmp_path, suite) == {"": {"high", "low"}, "TestIt::test_it": {"items", "low"}}


def test_what_goes_on_after_a_test_is_shared(tmp_path: Path) -> None:
    suite = """
import threading
import mod
kept = []
stop = threading.Event()
def test_begins():
    kept.append(mod.items(3))
    assert next(kept[0]) == 1
def test_goes_on(): assert next(kept[0]) == 2
def test_starts():
    thread = threading.Thread(target=stop.wait)
    thread.start()
    kept.append(thread)
def test_ends():
    stop.set()
    kept[1].join()
"""
    begun = touched(
        tmp_path, suite.replace("def test_starts", "def starts").replace("def test_ends", "def ends")
    )
    assert begun == {"test_begins": {"items", "low"}, "": {"items"}, "test_goes_on": {"low"}}
    assert touched(tmp_path / "threads", suite)[""] == set(NAMES)


def test_without_the_fixtures_being_told_apart_nothing_is_said(tmp_path: Path) -> None:
    assert touched(tmp_path, "import mod\ndef test_it(): assert mod.low(1) == 2", wrap="digest") == {}
