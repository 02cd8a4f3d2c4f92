"""Arguments as scratch space: what a rewrite may leave in another state, and what it may not."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
from check_lab import CheckLab, SomeServers, open_check_lab

from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.check.comparison.call_comparison import ComparisonRules
from codeflash_parallel.check.dispatch.fork_points import ForkPoint
from codeflash_parallel.result.outcome_codes import Code

pytestmark = [pytest.mark.anyio, pytest.mark.engine]

#: Functions that destroy an argument and return something else: the baseline's body, calls, and another body.
HINTED = {
    "longest": (
        """
        one.sort()
        best = run = 1
        for left, right in zip(one, one[1:]):
            run = run + 1 if right == left + 1 else 1
            best = max(best, run)
        return best
        """,
        ("[7, 3, 8, 1, 2, 9]", "[4, 1]"),
        """
        values, best = set(one), 1
        for value in values:
            end = value
            while value - 1 not in values and end in values:
                end += 1
            best = max(best, end - value)
        return best
        """,
    ),
    "solved": (
        """
        for at in range(len(one)):
            for row in range(at + 1, len(one)):
                factor = one[row][at] / one[at][at]
                for column in range(at, len(one)):
                    one[row][column] -= factor * one[at][column]
        result = 1.0
        for at in range(len(one)):
            result *= one[at][at]
        return result
        """,
        ("[[2.0, 1.0], [4.0, 8.0]]",),
        "return one[0][0] * (one[1][1] - one[1][0] / one[0][0] * one[0][1])",
    ),
    "islands": (
        """
        count = 0
        for row in one:
            for column, cell in enumerate(row):
                if cell:
                    count += 1
                    while column < len(row) and row[column]:
                        row[column] = 0
                        column += 1
        return count
        """,
        ("[[1, 1, 0, 1], [0, 0, 1, 1]]",),
        "return sum(cell and not (at and row[at - 1]) for row in one for at, cell in enumerate(row))",
    ),
    "folded": (
        """
        for at in range(1, len(one)):
            one[at] = (one[at] + one[at - 1]) % 256
        return one[-1] + 1000
        """,
        ("bytearray([200, 100, 3])", "bytearray([9])"),
        "return sum(one) % 256 + 1000",
    ),
    "merged": (
        """
        one.sort(key=lambda pair: pair[0])
        found = []
        for start, end in one:
            if found and start <= found[-1][1]:
                found[-1] = (found[-1][0], max(end, found[-1][1]))
            else:
                found.append((start, end))
        return found
        """,
        ("[(5, 6), (1, 3), (2, 4)]",),
        """
        found = []
        for start, end in sorted(one):
            if found and start <= found[-1][1]:
                found[-1] = (found[-1][0], max(end, found[-1][1]))
            else:
                found.append((start, end))
        return found
        """,
    ),
    "earliest": (
        "one.sort(key=lambda event: event.at)\nreturn one[0].at",
        ("[Event(3), Event(2), Event(5)]",),
        "return min(event.at for event in one)",
    ),
    "smallest": (
        "one[:] = sorted(one)\nreturn one[two - 1]",
        ("[12, 90, 45], 2", "[3, 1, 2], 3"),
        "one.reverse()\nreturn sorted(one)[two - 1]",
    ),
}

#: Functions that are called for what they do to an argument, and bodies that do something else to it.
REJECTED = {
    "pop": ("return one.pop()", ("[1, 2, 3]",), "return one[-1]"),
    "next_token": ("return one.pop(0)", ('["a", "b"]',), "return one[0]"),
    "next_of_record": (
        "token = one[0][one[1]]\none[1] += 1\nreturn token",
        ('[["a", "b"], 0]',),
        "return one[0][one[1]]",
    ),
    "next_of_cell": (
        "token = one[two[0]]\ntwo[0] += 1\nreturn token",
        ('["a", "b"], [0]', '["a", "b"], [1]'),
        "return one[two[0]]",
    ),
    "partition": (
        """
        at = 0
        for number, value in enumerate(one):
            if value < two:
                one[at], one[number] = one[number], one[at]
                at += 1
        return at
        """,
        ("[9, 3, 8, 1, 2], 5", "[7, 1], 2"),
        "return sum(value < two for value in one)",
    ),
    "three_ways": (
        """
        low = [value for value in one if value < two]
        same = [value for value in one if value == two]
        one[:] = [*low, *same, *[value for value in one if value > two]]
        return len(low), len(low) + len(same)
        """,
        ("[9, 5, 8, 1, 2], 5",),
        "return sum(value < two for value in one), sum(value <= two for value in one)",
    ),
    "filled": ("one[:] = [0] * len(one)", ("[1, 2]",), "return None"),
    "ordered": ("one.sort()\nreturn one", ("[3, 1, 2]",), "return sorted(one)"),
    "first_row": ("one[0].sort()\nreturn one[0]", ("[[3, 1], [2]]",), "return sorted(one[0])"),
    "printed": ("one.sort()\nprint(one[0])\nreturn one[0]", ("[3, 1, 2]",), "return min(one)"),
    "looked_at": ("return max(one)", ("[3, 9, 2]",), "one.sort()\nreturn one[-1]"),
    "both": (
        "one.sort()\nreturn one[0] + max(two)",
        ("[3, 1, 2], [6, 5]",),
        "one.sort()\ntwo.sort()\nreturn one[0] + two[-1]",
    ),
    "of_dict": ("one[0] = two\nreturn two + 1", ("{1: 2}, 3",), "return two + 1"),
    "of_set": ("one.add(two)\nreturn two + 1", ("{1}, 3",), "return two + 1"),
    "of_deque": ("one.rotate(1)\nreturn two + 1", ("deque([1, 2, 3]), 3",), "return two + 1"),
    "of_iterator": (
        "return next(one) + max(two)",
        ("iter([1, 2, 3]), [1]",),
        "return list(one)[0] + max(two)",
    ),
    "of_event": ("one.at += 1\nreturn two", ("Event(1), 5",), "return two"),
    "of_events": (
        "one.sort(key=lambda event: event.at)\none[0].at = 0\nreturn two",
        ("[Event(3), Event(2)], 5",),
        "one.sort(key=lambda event: event.at)\nreturn two",
    ),
    "of_rows": ("one[0][0] = 7\none.sort(key=str)\nreturn two", ("[{0: 3}, {0: 2}], 5",), "return two"),
}

EVERY = {**HINTED, **REJECTED}
HEADER = """
from collections import deque


class Event:
    def __init__(self, at):
        self.at = at


"""


def body_of(text: str) -> str:
    lines = text.strip("\n").splitlines()
    margin = len(lines[0]) - len(lines[0].lstrip())
    return indent("\n".join(line[margin:] for line in lines).rstrip(), "    ") + "\n"


def module(changed: str = "") -> str:
    bodies = {name: other if name == changed else body for name, (body, _, other) in EVERY.items()}
    return HEADER + "\n\n".join(f"def {n}(one, two=None):\n{body_of(text)}" for n, text in bodies.items())


FILES = {
    "shop/sums.py": module(),
    "tests/test_sums.py": "from shop.sums import *\n\n"
    + "\n".join(
        f"def test_{name}_{number}():\n    {name}({call})\n"
        for name, (_, calls, _) in EVERY.items()
        for number, call in enumerate(calls)
    ),
}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def lab(tmp_path_factory: pytest.TempPathFactory) -> Any:
    targets = tuple(f"shop/sums.py::{name}" for name in EVERY)
    async with open_check_lab(tmp_path_factory.mktemp("scratch"), files=FILES, targets=targets) as lab:
        assert await lab.start("replay", ForkPoint.IMPORTED) == ""
        yield lab


async def tried(lab: CheckLab, name: str, **plan: Any) -> CheckOutcome:
    candidate = lab.candidate(shop__sums=module(name))
    return await lab.check(candidate, SomeServers(lab.servers), **plan)


@pytest.mark.parametrize("name", HINTED)
async def test_scratch_space_in_another_state_is_a_hint(lab: CheckLab, name: str) -> None:
    outcome = await tried(lab, name)
    assert outcome.code is Code.OK, outcome.reason
    assert len(outcome.hints) == 1
    assert outcome.hints[0].startswith(f"{name} leaves its arguments ")
    strict = await tried(lab, name, rules=ComparisonRules(strict=True))
    assert (strict.code, strict.hints) == (Code.INPUT_MUTATED, ())


@pytest.mark.parametrize("name", REJECTED)
async def test_what_a_function_is_called_for_rejects(lab: CheckLab, name: str) -> None:
    outcome = await tried(lab, name)
    assert (outcome.code, outcome.hints) == (Code.INPUT_MUTATED, ()), outcome.reason


async def test_another_result_rejects_whatever_becomes_of_arguments(lab: CheckLab) -> None:
    text = module("longest").replace("best = set(one), 1", "best = set(one), 4")
    outcome = await lab.check(lab.candidate(shop__sums=text), SomeServers(lab.servers))
    assert (outcome.code, outcome.hints) == (Code.VALUE_DIFFERS, ())


@pytest.mark.witness
async def test_derived_inputs_are_compared_in_the_same_way(tmp_path: Path) -> None:
    cases = {"smallest": Code.OK, "partition": Code.INPUT_MUTATED, "pop": Code.INPUT_MUTATED}
    targets = tuple(f"shop/sums.py::{name}" for name in cases)
    async with open_check_lab(tmp_path, files=FILES, targets=targets, derives=True) as lab:
        for name, code in cases.items():
            outcome = await tried(lab, name)
            assert (outcome.code, len(outcome.hints)) == (code, code is Code.OK), (name, outcome)
            assert outcome.values.derived > 10


#: An object that works something out when it is asked, in the order of a set: that of the hash seed.
REMEMBERING = """
class Term:
    def __init__(self, number):
        self.number, self.known = number, {}

    def ask(self, name):
        self.known.setdefault(name, self.number % len(name) == 0)


def sign(term):
    for name in ("odd",) if term.number == 0 else {"odd", "even", "prime", "perfect", "square"}:
        term.ask(name)
    return term.number > 0


def fill(term):
    sign(term)
"""
FORGETFUL = {
    "sign": REMEMBERING.replace("        term.ask(name)", "        pass"),
    "fill": REMEMBERING.replace("    sign(term)\n", "    return None\n"),
}


@pytest.mark.parametrize(("target", "code"), [("sign", Code.OK), ("fill", Code.INPUT_MUTATED)])
async def test_what_arguments_remember_is_not_compared_where_the_baseline_does_not_repeat_it(
    tmp_path: Path, target: str, code: Code
) -> None:
    calls = "\n".join(f"def test_{n}():\n    {target}(Term({n}))\n" for n in range(4))
    files = {"shop/sums.py": REMEMBERING, "tests/test_sums.py": f"from shop.sums import *\n\n{calls}"}
    places = (f"shop/sums.py::{target}",)
    async with open_check_lab(tmp_path, files=files, targets=places, derives=True) as lab:
        assert len(lab.baseline.calls) == 4
        forgetful = lab.candidate(shop__sums=FORGETFUL[target])
        assert (await lab.check(forgetful, SomeServers(lab.servers))).code is code
        wrong = lab.candidate(shop__sums=REMEMBERING.replace("number > 0", "number > 1"))
        wanted = Code.VALUE_DIFFERS if target == "sign" else Code.OK
        assert (await lab.check(wrong, SomeServers(lab.servers))).code is wanted
