"""Canaries: where they are put, that they fail in their way, and what is believed of a run with them."""

from __future__ import annotations

import hashlib
import json
import math
import unittest
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.check.integrity.canaries import (
    FORMS,
    METHODS,
    MOST,
    MOST_TRIED,
    STATEMENT,
    Canary,
    CanaryPlace,
    broken_seal,
    disbelief,
    draw,
    draw_at,
    parent_of,
    places_of,
    sift,
    to_be_tried,
    uses,
)
from codeflash_parallel.check.session.runner_report import RunnerReport, TestOutcome

TESTS = ("a.py::test_sum_of_two", "a.py::TestIt::test_x[1-a::b]", "a.py::TestIt::test_y", "b.py::test_z")
SOURCE = b"""
import numpy as np
from math import isclose
import unittest

def test_sum_of_two():
    np.testing.assert_allclose(1.0, 1.0)
    assert isclose(1.0, 1.0)
    spy.method.assert_called_once_with(1)

class TestIt(unittest.TestCase):
    def test_y(self):
        self.assertEqual(1, 1)
        self.assertOwn(1)
        self.fail("never")
"""
USED = {"a.py": uses(SOURCE), "b.py": {}}


def test_what_a_module_uses() -> None:
    assert USED["a.py"] == {
        "": {
            "np.testing.assert_allclose": "assert_allclose",
            "isclose": "isclose",
            "assert_called_once_with": "assert_called_once_with",
        },
        "TestIt": {"self.assertEqual": "assertEqual"},
    }
    assert uses(b"def broken(:") == {"": {}}


def test_the_class_of_a_test_is_part_of_its_place() -> None:
    assert [parent_of(test) for test in TESTS] == ["a.py", "a.py::TestIt", "a.py::TestIt", "b.py"]
    places = places_of(("c.md::c.md", *TESTS), USED)
    assert CanaryPlace("a.py::TestIt", "assertEqual", "self.assertEqual") in places
    assert CanaryPlace("a.py", "assertEqual", "self.assertEqual") not in places
    assert {place.parent for place in places} == {"a.py", "a.py::TestIt", "b.py"}


class Examples(unittest.TestCase):
    """Runs the forms of `unittest`, and nothing else."""

    def runTest(self) -> None:  # noqa: N802 - the name that unittest looks for
        """Be a test case."""


def _failure(canary: Canary, test: unittest.TestCase) -> str:
    """Run a canary's body and return what pytest would be told."""
    names = {"pytest": pytest, "math": math, "self": test}
    body = "def run():\n" + "".join(f"    {line}\n" for line in canary.lines)
    exec(body, names)
    with pytest.raises((AssertionError, pytest.fail.Exception)) as failure:
        names["run"]()
    return f"{type(failure.value).__name__}: {failure.value}"


CALLS = {
    "approx": "pytest.approx",
    "isclose": "math.isclose",
    "raises": "pytest.raises",
}
OURS = [name for name in FORMS if name in {STATEMENT, *CALLS} or name.startswith("assert_called")]


@pytest.mark.parametrize("helper", [*OURS, *METHODS])
def test_every_form_fails_in_its_way(helper: str) -> None:
    call = f"self.{helper}" if helper in METHODS else CALLS.get(helper, f"pytest.{helper}")
    for seed in range(4):
        (canary,) = draw_at(Random(seed), TESTS, [CanaryPlace("a.py", helper, call)])
        message = _failure(canary, Examples())
        outcome = TestOutcome(id=canary.id, outcome="failed", message=message)
        assert not disbelief([canary], {canary.id: outcome}), message


@given(st.randoms(use_true_random=False), st.permutations(TESTS))
def test_one_of_each_helper_and_one_behind_all_tests(random: Random, order: list[str]) -> None:
    drawn = draw(random, order, places_of(order, USED))
    assert len({canary.id for canary in drawn}) == len(drawn) <= MOST + 1
    assert {c.place.helper for c in drawn} >= {STATEMENT, "assertEqual", "assert_allclose", "isclose"}
    assert drawn[-1].after == order[-1]
    for canary in drawn:
        assert canary.after in order
        assert parent_of(canary.after) == canary.place.parent == parent_of(canary.id)
        assert canary.id not in order


def test_nobody_can_foresee_them() -> None:
    places = places_of(TESTS, USED)
    seen = {canary.id for seed in range(50) for canary in draw(Random(seed), TESTS, places)}
    assert len(seen) > 50
    assert draw(Random(0), TESTS, ()) == draw(Random(0), ["z.py::test_z"], places) == ()


def test_what_the_baseline_tries() -> None:
    many = [f"m{number}.py::test_it" for number in range(100)]
    places = places_of(many, dict.fromkeys((f"m{number}.py" for number in range(100)), USED["a.py"]))
    tried = to_be_tried(Random(0), places, many[-1])
    assert len(tried) == MOST_TRIED
    assert tried[0] == CanaryPlace("m99.py", STATEMENT, STATEMENT)
    assert {place.helper for place in tried} == {place.helper for place in places}


# ---- what became of them


def two() -> tuple[Canary, ...]:
    """Draw two canaries."""
    return draw_at(
        Random(1), TESTS, [CanaryPlace("a.py", STATEMENT, STATEMENT), CanaryPlace("a.py", "raises", "raises")]
    )


def test_parameters_of_shared_fixtures_are_no_part_of_a_name() -> None:
    (first, second) = two()
    tests = {
        f"{one.id}[param]": TestOutcome(id=f"{one.id}[param]", outcome="failed", message=one.tells)
        for one in (first, second)
    }
    kept, ours = sift(RunnerReport(tests=tests, collected=tuple(tests)), (first, second))
    assert (kept.tests, kept.collected) == ({}, ())
    assert not disbelief((first, second), ours)


# ---- the seal


@given(st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"")), max_size=4), st.data())
def test_a_seal_holds_only_what_the_runner_wrote(lines: list[bytes], data: st.DataObject) -> None:
    key = b"k" * 32
    body = b"".join(line + b"\n" for line in lines)
    seal = hashlib.blake2b(body, key=key, digest_size=16).hexdigest()
    end = json.dumps({"t": "end", "status": 0, "seal": seal}).encode() + b"\n"
    assert not broken_seal(body + end, key)
    assert broken_seal(body + end, b"l" * 32)
    where = data.draw(st.integers(0, len(body)))
    assert broken_seal(body[:where] + b"{}\n" + body[where:] + end, key)
    assert broken_seal(body + end + b'{"t": "passed"}\n', key)
    assert broken_seal(body + b'{"t": "end", "status": 0}\n', key)
    assert broken_seal(body + b"no record\n", key)
