"""What is recorded and written in forks: calls below the wrappers of a template, and no progress."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from runner_sessions import PYTHONS
from serving_lab import Run, anyio_backend, open_lab

__all__ = ["anyio_backend"]
pytestmark = pytest.mark.anyio

MODULE = '''
import functools

@functools.lru_cache
def cached(x): return [x]
def plain(x):
    """Doc."""
    return x + 1
def gen(x):
    yield x
    yield x * 2
async def coro(x): return x + 3
async def agen(x):
    yield x
class C:
    def method(self, x): return self.prop + x
    @property
    def prop(self): return 5
    @staticmethod
    def static(x): return x
    @classmethod
    def klass(cls, x): return cls.__name__ * x
    @functools.cached_property
    def lazy(self): return 7
'''
TESTS = """
import asyncio, inspect
import pytest
import mod
from mod import *

def test_each_kind():
    cached(2); cached(2); cached(3)
    assert plain(1) and list(gen(3)) and asyncio.run(coro(1))
    next(gen(4))
    async def collect(): return [x async for x in agen(2)]
    asyncio.run(collect())
    c = C(); c.method(2); C.static(3); C.klass(2); c.lazy; c.lazy
@pytest.mark.parametrize("x", range(3))
def test_each(x): assert plain(x) and mod.C().method(x)
def test_raises():
    with pytest.raises(TypeError): plain("a")
    assert "return" in inspect.getsource(plain) and inspect.signature(plain).parameters
def test_fails(): assert plain(5) == 3
"""
NAMES = ("cached", "plain", "gen", "coro", "agen", "C.method", "C.prop", "C.static", "C.klass", "C.lazy")
CHANGED = (
    MODULE,
    MODULE.replace("x + 1", "1 + x").replace("yield x * 2", "twice = x * 2\n    yield twice"),
    MODULE.replace("x + 1", "x + 2").replace("return 5", "return plain(5)"),
)


def told(run: Run) -> list[str]:
    return sorted(json.dumps(record, sort_keys=True) for record in run.essence)


@pytest.mark.parametrize("python", PYTHONS)
async def test_calls_are_recorded_below_the_wrappers(tmp_path: Path, python: str) -> None:
    async with open_lab(tmp_path, python=python) as lab:
        lab.targets = tuple(f"mod.py::{name}" for name in NAMES)
        lab.write(mod=MODULE, test_it=TESTS)
        async with lab.server("collected", wrap="digest") as server:
            assert not server.ready.unfit
            for text in CHANGED:
                lab.write(mod=text)
                forked = await lab.fork(server, wrap="digest")
                assert forked.named("call")
                assert told(forked) == told(await lab.new_process(wrap="digest"))


async def test_a_call_before_the_tests_is_seen_below_the_wrapper(tmp_path: Path) -> None:
    async with open_lab(tmp_path) as lab:
        lab.write(
            mod="def f(x): yield x\n", test_it="import mod\nfor x in mod.f(1): pass\ndef test(): pass\n"
        )
        async with lab.server("collected", wrap="digest") as server:
            assert server.ready.unfit == "f was called while modules were imported or tests collected"


COUNTING = """
def pytest_sessionfinish(session):
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    for name, reports in sorted(reporter.stats.items()):
        for report in reports:
            reporter.write_line("counted %s %s %s" % (name or "nothing", report.when, report.location))
"""
STATUS = """
def pytest_report_teststatus(report):
    if report.when == "teardown" and "odd" in report.keywords: return "odd", "o", "ODD"
"""
KINDS = """
import functools, unittest
import pytest
from mod import f
def test_a(): assert f(1)
def test_b(): assert f(0)
@pytest.mark.xfail
def test_expected(): assert f(0)
@pytest.mark.skip
def test_skipped(): pass
@pytest.fixture
def broken(): raise ValueError
def test_error(broken): pass
class TestC:
    @pytest.mark.parametrize("x", [1, 2])
    @pytest.mark.odd
    def test_each(self, x): assert f(x)
class TestD(TestC): pass
class TestE(unittest.TestCase):
    def test_old(self): assert f(1)
@functools.wraps(test_a)
def test_wrapped(): test_a()
"""


def counted(run: Run) -> list[str]:
    return [line for line in run.output.splitlines() if line.startswith("counted")]


@pytest.mark.parametrize("point", ["imported", "collected"])
@pytest.mark.parametrize("more", ["", STATUS])
async def test_forks_write_no_progress_and_count_reports(tmp_path: Path, more: str, point: str) -> None:
    async with open_lab(tmp_path) as lab:
        lab.write(conftest=COUNTING + more, mod="def f(x): return x\n", test_it=KINDS)
        new_process = await lab.new_process()
        async with lab.server(point) as server:
            forked = await lab.fork(server)
    assert "test_it.py .F" in new_process.output
    assert "test_it.py .F" not in forked.output
    assert len(counted(new_process)) == 30
    assert counted(forked) == counted(new_process)
