"""What makes screening short: an order of its own, a stop at the first decisive failure, cheap texts, few records."""

from __future__ import annotations

from pathlib import Path

import pytest
from runner_sessions import SessionRun, run_session, write_files

SUITE = """
import pytest
@pytest.fixture(scope="module")
def shared(): return []
@pytest.mark.parametrize("n", [2, 1])
def test_n(n, shared): shared.append(n)
def test_a(): pass
def test_b(shared): assert 0, "b fails"
def test_c(): pass
class TestD:
    def test_d(self): assert [1] == [2]
"""
CONFTEST = """
import pytest
@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items): items.reverse()
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    return write_files(
        root, {"test_it.py": SUITE, "conftest.py": CONFTEST, "test_other.py": "def test_o(): pass\n"}
    )


def ran(run: SessionRun) -> list[str]:
    return list(dict.fromkeys(record["id"] for record in run.named("phase")))


@pytest.mark.parametrize("workers", [0, 1])
def test_tests_run_in_the_order_of_the_spec(tmp_path: Path, project: Path, workers: int) -> None:
    order = [
        "test_it.py::test_c",
        "test_other.py::test_o",
        "test_it.py::test_n[1]",
        "gone.py::test",
        "test_it.py::test_a",
    ]
    environment = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "" if workers else "1"}
    run = run_session(tmp_path, project, order=order, workers=workers, select=None, environment=environment)
    wanted = [test for test in order if test != "gone.py::test"]
    assert run.one("collected")["ids"] == wanted
    assert ran(run) == wanted
    assert workers or run.one("collected")["deselected"] == 3


def test_order_and_select_are_one(tmp_path: Path, project: Path) -> None:
    order = ["test_it.py::test_c", "test_it.py::test_a"]
    run = run_session(tmp_path, project, order=order, select=["test_it.py::test_a"])
    assert ran(run) == order


def test_the_first_decisive_failure_ends_the_run(tmp_path: Path, project: Path) -> None:
    names = ("test_a", "test_b", "test_c", "TestD::test_d", "test_n[1]")
    order = [f"test_it.py::{name}" for name in names]
    run = run_session(tmp_path, project, order=order, stop="decisive", tolerated=[])
    assert ran(run) == order[:2]
    run = run_session(tmp_path, project, order=order, stop="decisive", tolerated=["test_it.py::test_b"])
    assert ran(run) == order[:4]
    assert run.outcomes["test_b"] == run.outcomes["TestD::test_d"] == "failed"
    # Fixtures of the tests that are not run any more are torn down all the same.
    assert run.records[-1] == {"t": "end", "status": 1}


def test_a_test_that_passed_is_one_record(tmp_path: Path, project: Path) -> None:
    run = run_session(tmp_path, project)
    passed = [record for record in run.records if record["t"] == "passed"]
    assert {record["id"].rpartition("::")[2] for record in passed} == {
        "test_n[1]",
        "test_n[2]",
        "test_a",
        "test_c",
        "test_o",
    }
    assert all(len(record["ns"]) == 3 and min(record["ns"]) >= 0 for record in passed)
    phases = [record for record in run.records if record["t"] == "phase"]
    assert [(p["when"], p["outcome"]) for p in phases] == 2 * [
        ("setup", "passed"),
        ("call", "failed"),
        ("teardown", "passed"),
    ]


def test_sub_tests_that_passed_are_part_of_their_test(tmp_path: Path) -> None:
    suite = """
import unittest
class TestCase(unittest.TestCase):
    def test_passes(self):
        for n in range(50):
            with self.subTest(n=n): pass
    def test_fails(self):
        for n in range(50):
            with self.subTest(n=n): self.assertNotEqual(n, 25)
"""
    run = run_session(tmp_path, write_files(tmp_path / "root", {"test_it.py": suite}))
    outcomes = [(r["t"], r["id"].rpartition("::")[2]) for r in run.records if r["t"] in ("passed", "phase")]
    assert ("passed", "test_passes") in outcomes
    assert len(outcomes) < 10
    assert run.outcomes == {"TestCase::test_passes": "passed", "TestCase::test_fails": "failed"}


def test_what_began_is_told_when_pytest_breaks_down(tmp_path: Path, project: Path) -> None:
    conftest = "def pytest_runtest_teardown(item): raise KeyboardInterrupt\n"
    write_files(project, {"conftest.py": conftest})
    run = run_session(tmp_path, project, select=["test_it.py::test_a"])
    assert [(p["when"], p["outcome"]) for p in run.named("phase")][:2] == [
        ("setup", "passed"),
        ("call", "passed"),
    ]


FAILURES = """
import pytest, unittest
class Strange(Exception):
    def __str__(self): raise ValueError("no text")
def deep(n):
    return deep(n - 1) if n else [][1]
def test_deep(): deep(40)
def test_assertion():
    print("not in the text")
    assert list(range(100)) == list(range(99))
def test_strange(): raise Strange
def test_chain():
    try:
        int("x")
    except ValueError as error:
        raise KeyError("later") from error
def test_fixture(no_such_fixture): pass
def test_outright(): pytest.fail("by request", pytrace=False)
def test_long(): raise ValueError("x" * 20000 + "the end")
class TestCase(unittest.TestCase):
    def test_case(self): self.assertEqual(1, 2, "not equal")
"""


def test_native_tracebacks(tmp_path: Path) -> None:
    module = 'def double(x):\n    """\n    >>> double(2)\n    5\n    """\n    return 2 * x\n'
    root = write_files(tmp_path / "root", {"test_it.py": FAILURES, "mod.py": module})
    run = run_session(tmp_path, root, tracebacks="native", args=["--doctest-modules"])
    told = {r["id"].rpartition("::")[2]: r["message"] for r in run.named("phase") if "message" in r}
    assert len(told) == 9
    assert all(len(text) <= 8000 for text in told.values())
    assertion = told["test_assertion"].splitlines()
    assert assertion[0].startswith("AssertionError: assert [0, 1, 2")
    assert "test_it.py:10: in test_assertion" in assertion
    assert "not in the text" not in told["test_assertion"]
    assert told["test_deep"].startswith("IndexError: list index out of range\n")
    assert told["test_deep"].endswith("IndexError: list index out of range")
    assert told["test_deep"].count("in deep") == 20
    assert "Strange: <its text cannot be made: ValueError>" in told["test_strange"]
    assert "after ValueError: invalid literal" in told["test_chain"]
    assert "fixture 'no_such_fixture' not found" in told["test_fixture"]
    assert told["test_outright"].startswith("Failed: by request")
    assert told["test_long"].endswith("the end")
    assert "AssertionError: 1 != 2 : not equal" in told["test_case"]
    assert "Expected:\n    5\nGot:\n    4" in told["mod.double"]
