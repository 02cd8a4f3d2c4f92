"""Results of which parts have no canonical form: the other parts are compared, and what is not is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from projects import make_project
from test_engine_serving import candidate, judged, settings

from codeflash_parallel.result.outcome_codes import Code, Level
from codeflash_parallel.result.result_model import RunResult

pytestmark = [pytest.mark.anyio, pytest.mark.engine]

MODULE = """
import threading


class Result:
    def __init__(self, value):
        self.lock, self.rule, self.value = threading.Lock(), lambda: value, value


def total(values):
    return Result(sum(values))


def pair(values):
    return iter(values), len(values)


def adder(n):
    return lambda x: x + n
"""
TESTS = """
from shop.sums import adder, pair, total


def test_total():
    assert total([1, 2]).value == 3
    assert total([4, 5]).rule() == 9


def test_pair():
    items, count = pair([1, 2])
    assert list(items) == [1, 2]
    assert pair([4, 5])[1] == 2


def test_adder():
    assert adder(3)(4) == 7
"""
#: Right as far as the tests look: one looks at the value, the other at the rule.
LOCKED = """
def total(values):
    made = Result(sum(values))
    if values == [4, 5]:
        made.value = 0
    return made
"""


async def checked(tmp_path: Path, name: str, *bodies: str) -> RunResult:
    project = make_project(tmp_path / "project", shop__sums_py=MODULE, tests__test_sums_py=TESTS)
    own = settings(tmp_path, functions=(f"shop/sums.py::{name}",))
    return await judged(project, own, [candidate(f"c{n}", body) for n, body in enumerate(bodies)])


async def test_a_lock_in_a_result_does_not_hide_the_rest_of_it(tmp_path: Path) -> None:
    right = "def total(values):\n    made = Result(sum(values))\n    return made\n"
    result = await checked(tmp_path, "total", right, LOCKED)
    equal, wrong = result.candidates
    assert [equal.code, wrong.code] == [Code.NOT_RACED, Code.VALUE_DIFFERS]
    assert equal.values.compared == 2
    (why,) = equal.values.uncaptured
    assert why.startswith("in part: _thread.lock cannot be taken apart")


@pytest.mark.witness
async def test_an_iterator_in_a_result_is_compared_though_its_test_still_needs_it(tmp_path: Path) -> None:
    right = "def pair(values):\n    return iter([*values]), len(values)\n"
    wrong = "def pair(values):\n    return iter([1, 2]), 2\n"
    result = await checked(tmp_path, "pair", right, wrong)
    assert [c.code for c in result.candidates] == [Code.NOT_RACED, Code.VALUE_DIFFERS]
    assert result.candidates[0].values.compared == 2


async def test_where_no_value_can_be_compared_it_says_why(tmp_path: Path) -> None:
    (other,) = (await checked(tmp_path, "adder", "def adder(n):\n    return lambda x: 7\n")).candidates
    assert (other.code, other.values.level) == (Code.NOT_RACED, Level.TESTS)
    assert [(count, "lambda" in why) for why, count in other.values.uncaptured.items()] == [(1, True)]
