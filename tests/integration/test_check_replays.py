"""Captured calls made again on candidates: which one is blamed, and what is said of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from check_lab import CheckLab, SomeServers, open_check_lab

from codeflash_parallel.check.dispatch.fork_points import ForkPoint
from codeflash_parallel.result.outcome_codes import Code
from codeflash_parallel.result.runtime_protocols import ProcessLimits

pytestmark = [pytest.mark.anyio, pytest.mark.engine]

SHORT = ProcessLimits(wall_s=60, cpu_s=2)
ALONE = '"pytest" not in sys.modules and values == [5, 5]'


def alone(lab: CheckLab, text: str) -> str:
    """Return the target's module with something that happens in one call, and only outside pytest."""
    module = (lab.root / "shop/sums.py").read_text(encoding="utf-8")
    return "import os, sys\n" + module.replace("result = 0", f"result = 0\n    if {ALONE}: {text}")


@pytest.fixture
async def lab(tmp_path: Path):
    async with open_check_lab(tmp_path) as lab:
        for point in (ForkPoint.IMPORTED, ForkPoint.COLLECTED):
            assert await lab.start("replay", point) == ""
        yield lab


async def test_the_difference_is_told_in_words_of_both_sides(lab: CheckLab) -> None:
    candidate = lab.body("result += value + (values == [5, 5])")
    for servers in (None, SomeServers(lab.servers)):
        outcome = await lab.check(candidate, servers)
        assert (outcome.code, outcome.values.differing) == (Code.VALUE_DIFFERS, 1)
        difference = outcome.difference
        assert difference is not None
        assert (difference.test, difference.inputs) == ("tests/test_sums.py::test_blind", "[5, 5]")
        assert (difference.expected, difference.got) == ("10", "12")


async def test_of_an_argument_the_part_is_told_that_is_left_otherwise(lab: CheckLab) -> None:
    outcome = await lab.check(lab.body("result += value; values == [5, 5] and values.append(0)"))
    assert outcome.code is Code.INPUT_MUTATED
    assert outcome.difference is not None
    told = (outcome.difference.expected, outcome.difference.got)
    assert told == ("10, leaving [5, 5]", "10, leaving [5, 5, 0]")


@pytest.mark.witness
async def test_who_ends_or_holds_the_process_is_named(lab: CheckLab) -> None:
    cases = [
        ("os._exit(0)", Code.CRASHED),
        ("os.abort()", Code.CRASHED),
        ("\n        while True: pass", Code.TOO_SLOW),
    ]
    for text, code in cases:
        candidate = lab.candidate(shop__sums=alone(lab, text))
        for servers in (None, SomeServers(lab.servers)):
            outcome = await lab.check(candidate, servers, limits=SHORT)
            assert outcome.code is code, (text, outcome)
            assert outcome.difference is not None
            assert (outcome.difference.inputs, outcome.difference.got) == ("[5, 5]", "no outcome"), text


async def test_a_difference_that_does_not_come_again_stands(lab: CheckLab) -> None:
    flag = lab.base / "flag"
    text = f'\n        if not os.path.exists("{flag}"): open("{flag}", "x").close(); return 0'
    outcome = await lab.check(lab.candidate(shop__sums=alone(lab, text)), SomeServers(lab.servers))
    assert outcome.code is Code.VALUE_DIFFERS
    assert outcome.difference is not None
    assert outcome.difference.got == "another outcome; made once more, the call gave the baseline's"
    assert outcome.difference.expected == "10"


async def test_a_call_is_made_after_those_before_it_when_it_is_put_into_words(lab: CheckLab) -> None:
    module = (lab.root / "shop/sums.py").read_text(encoding="utf-8")
    text = module.replace(
        "    return result", "    SEEN.append(1); return result + (ALONE and len(SEEN) == 4)"
    )
    header = 'import sys\nALONE = "pytest" not in sys.modules\nSEEN = []\n'
    outcome = await lab.check(lab.candidate(shop__sums=header + text), SomeServers(lab.servers))
    assert outcome.code is Code.VALUE_DIFFERS
    assert outcome.difference is not None
    assert (outcome.difference.inputs, outcome.difference.got) == ("[5, 5]", "11")


DECORATED = {
    "shop/sums.py": """
def doubling(function):
    def wrapper(values):
        return function(values + values)
    return wrapper

@doubling
def total(values):
    return sum(values)

def plain(values):
    return sum(values)
""",
    "tests/test_sums.py": """
from shop.sums import plain, total

def test_total():
    total([1])
    assert plain([2, 3]) == 5
""",
}


@pytest.mark.witness
async def test_decorators_that_are_not_known(tmp_path: Path) -> None:
    targets = ("shop/sums.py::total", "shop/sums.py::plain")
    async with open_check_lab(tmp_path, files=DECORATED, targets=targets) as lab:
        assert len(lab.baseline.calls) == 2
        assert await lab.start("replay", ForkPoint.IMPORTED) == ""
        module = DECORATED["shop/sums.py"]
        transparent = "def tracing(function):\n    return lambda *args: function(*args)\n"
        # It leaves the arguments in another state, which no test looks at.
        wrong = "def tracing(function):\n    return lambda values: function(values) + 0 * len(values.clear() or [])\n"
        cases = [
            (module.replace("sum(values)", "0 + sum(values)"), Code.OK),
            (
                module.replace("    return sum(values)\n\n", "    return sum(values) + 1\n\n"),
                Code.VALUE_DIFFERS,
            ),
            # One that is added is part of what the tests call, and of what is called again.
            (transparent + module.replace("def plain", "@tracing\ndef plain"), Code.OK),
            (wrong + module.replace("def plain", "@tracing\ndef plain"), Code.INPUT_MUTATED),
            # What was below one that is gone cannot be found any more.
            (module.replace("@doubling\n", ""), Code.VALUE_DIFFERS),
        ]
        for text, code in cases:
            for servers in (None, SomeServers(lab.servers)):
                outcome = await lab.check(lab.candidate(shop__sums=text), servers)
                assert outcome.code is code, (text, outcome)


LAZY = {
    "shop/sums.py": """
def count(n):
    yield from range(n)

async def soon(n):
    return [n]

def total(values):
    return iter(values)

def sort(values):
    values.sort()
""",
    "tests/test_sums.py": """
import asyncio
from shop.sums import count, soon, sort, total

def test_lazy():
    list(count(3))
    asyncio.run(soon(3))
    for _ in range(5):
        list(total((1, 2)))
        values = [3, 1, 2]
        sort(values)
""",
}
MEMO = """
CACHE = {}

def memo(function):
    def inner(values):
        key = tuple(values)
        if key not in CACHE:
            CACHE[key] = function(values)
        return CACHE[key]
    return inner
"""


@pytest.mark.witness
async def test_lazy_results_and_second_answers(tmp_path: Path) -> None:
    targets = tuple(f"shop/sums.py::{name}" for name in ("count", "soon", "total", "sort"))
    async with open_check_lab(tmp_path, files=LAZY, targets=targets) as lab:
        assert await lab.start("replay", ForkPoint.IMPORTED) == ""
        module = LAZY["shop/sums.py"]
        cases = [
            (module.replace("range(n)", "range(0, n, 1)"), Code.OK),
            (module.replace("range(n)", "range(n + 1)"), Code.VALUE_DIFFERS),
            (module.replace("[n]", "[n, n]"), Code.VALUE_DIFFERS),
            # The first answer of each is right.
            (MEMO + module.replace("def total", "@memo\ndef total"), Code.VALUE_DIFFERS),
            (MEMO + module.replace("def sort", "@memo\ndef sort"), Code.INPUT_MUTATED),
        ]
        for text, code in cases:
            for servers in (None, SomeServers(lab.servers)):
                outcome = await lab.check(lab.candidate(shop__sums=text), servers)
                assert outcome.code is code, (text, outcome)
