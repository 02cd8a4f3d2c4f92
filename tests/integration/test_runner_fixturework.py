"""Arms that time what pytest-benchmark's tests hand to their fixture; the tests wait meanwhile."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from runner_lab import PYTHONS, Lab

TESTS = """
import sqlite3, time
import pytest

LOG = open("log", "a", buffering=1)

def burn(ms, result=None):
    end = time.process_time() + ms / 1000
    while time.process_time() < end:
        pass
    return result

@pytest.fixture(scope="session")
def wide():
    LOG.write("wide up\\n")
    yield 7
    LOG.write("wide down\\n")

@pytest.fixture
def database(wide):
    found = sqlite3.connect(":memory:")
    found.execute("create table numbers (n)")
    yield found
    found.close()
    LOG.write("database down\\n")

def test_database(benchmark, database):
    with database:
        assert benchmark(database.execute, "select count(*) from numbers").fetchone() == (0,)

def test_database_again(benchmark, database):
    assert benchmark(database.execute, "select count(*) from numbers").fetchone() == (0,)

def test_burns(benchmark, wide):
    before = burn(20, 1)
    assert benchmark(burn, 10, result=wide) == 7
    LOG.write("never\\n")

def test_lazy(benchmark):
    benchmark(lambda: (burn(10, n) for n in range(2)))

def test_made_by_setup(benchmark):
    benchmark.pedantic(list.append, setup=lambda: (([burn(20)], 2), {}), rounds=5)

def test_prepared_ground(benchmark):
    seen = []
    ground = []
    def work():
        ground.append(1)
        return len(ground)
    benchmark.pedantic(work, setup=ground.clear, teardown=lambda: seen.append(1), rounds=3)

def test_as_decorator(benchmark):
    @benchmark
    def result():
        return 3
    assert result == 3

def test_differs(benchmark, seen=[]):
    benchmark(lambda: seen.append(1) or len(seen))

def test_raises(benchmark):
    with pytest.raises(KeyError):
        benchmark({}.__getitem__, 1)

def test_does_not_come_so_far(benchmark):
    raise ValueError("no data")

def test_uses_no_fixture():
    pass

@pytest.fixture
def breaks():
    yield
    raise OSError("no end")

def test_teardown_breaks(benchmark, breaks):
    benchmark(len, "abc")
"""


@pytest.fixture(params=PYTHONS, ids=lambda path: path.split("/")[-3])
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Lab:
    made = Lab(tmp_path, python=request.param)
    import_it = [made.python, "-c", "import pytest_benchmark"]
    if subprocess.run(import_it, check=False, capture_output=True).returncode:
        pytest.skip("this interpreter has no pytest-benchmark")
    made.file("test_it.py", TESTS)
    return made


def arm(lab: Lab, *groups: list[str], **extra: Any) -> Any:
    named = [{"name": "g", "calls": [], "tests": [f"test_it.py::{n}" for n in names]} for names in groups]
    more = {"args": ["-q", "-p", "no:cacheprovider", "test_it.py"], "select": None, "wrap": "none"}
    return lab.arm(named, work="pytest-benchmark", **more, **extra)


def spent_ms(found: Any, pid: int, group: int, calls: int) -> tuple[float, dict[str, Any]]:
    clock = (~pid << 3) | 2
    assert found.ask(op="block", group=group, calls=calls) == {"t": "armed"}
    before = time.clock_gettime_ns(clock)
    assert found.ask(op="go") == {"t": "done"}
    spent = (time.clock_gettime_ns(clock) - before) / 1e6
    return spent, found.ask(op="check")


def test_what_is_handed_over_is_timed_and_nothing_else(lab: Lab) -> None:
    with arm(lab, ["test_burns"], ["test_lazy"], ["test_made_by_setup"]) as found:
        assert found.hear()["calls"] == [1, 1, 1]
        pid = found.ask(op="unit", core=None, unit=0)["pid"]
        assert found.block(0, 0)["inputs"] == 0
        for group, least in ((0, 30), (1, 60), (2, 0)):
            for _ in range(2):
                spent, checked = spent_ms(found, pid, group, 3)
                assert least <= spent < least + 15, (group, spent)
                assert (checked["inputs"], checked["raised"]) == (1, False)
        assert found.ask(op="end")["status"] == 0
    assert "never" not in (lab.project / "log").read_text()


def test_of_an_unsteady_test_the_values_are_not_compared(lab: Lab) -> None:
    groups = ["test_differs"], ["test_as_decorator"], ["test_raises"]
    with arm(lab, *groups, unsteady=["test_it.py::test_differs"]) as found:
        found.hear()
        found.ask(op="unit", core=None, unit=0)
        first, again, steady, raises = (found.block(n, 1)["digest"] for n in (0, 0, 1, 2))
        assert first == again
        assert len({first, steady, raises}) == 3


def test_tests_of_one_group_wait_side_by_side_with_their_fixtures(lab: Lab) -> None:
    names = ["test_database", "test_burns", "test_as_decorator", "test_raises", "test_prepared_ground"]
    with arm(lab, names, ["test_database_again"]) as found:
        assert found.hear()["calls"] == [5, 1]
        for unit in range(2):
            found.ask(op="unit", core=None, unit=unit)
            first = found.block(0, 1)
            assert (first["inputs"], first.get("said")) == (5, None)
            assert found.block(0, 4)["digest"] == first["digest"]
            assert found.block(1, 3).get("said") is None
            assert found.ask(op="end")["status"] == 0
            log = (lab.project / "log").read_text().split("\n")
            assert log == [*["wide up", "database down", "database down", "wide down"] * (unit + 1), ""]


def test_who_does_not_come_to_the_fixture_is_named(lab: Lab) -> None:
    with arm(lab, ["test_does_not_come_so_far"], ["test_uses_no_fixture", "test_gone"]) as found:
        ready = found.hear()
        assert (ready["calls"], [*ready["skipped"]]) == ([1, 1], ["test_it.py::test_gone"])
        found.ask(op="unit", core=None, unit=0)
        said = "test_it.py::test_does_not_come_so_far does not come to its benchmark: ValueError: no data"
        assert found.block(0, 2)["said"] == said
        assert found.block(1, 1)["said"] == "test_it.py::test_uses_no_fixture does not come to its benchmark"
        assert found.ask(op="end")["status"] == 0


def test_a_teardown_that_fails_keeps_nobody_waiting(lab: Lab) -> None:
    with arm(lab, ["test_teardown_breaks", "test_burns"]) as found:
        found.hear()
        found.ask(op="unit", core=None, unit=0)
        assert found.block(0, 1).get("said") is None
        assert found.ask(op="end")["status"] == 0
    assert (lab.project / "log").read_text() == "wide up\nwide down\n"
