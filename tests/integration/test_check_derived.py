"""The differential check: fresh inputs catch what the tests' inputs let through, and hurt nobody who is right."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from check_lab import CheckLab, SomeServers, open_check_lab

from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.check.comparison.call_comparison import ComparisonRules, Tolerance
from codeflash_parallel.check.comparison.value_comparison import ACCIDENT, OBJECTED
from codeflash_parallel.check.dispatch.fork_points import ForkPoint
from codeflash_parallel.result.outcome_codes import Code, Level

pytestmark = [pytest.mark.anyio, pytest.mark.engine]

FILES = {
    "shop/sums.py": """
import random
from functools import lru_cache

SEEN = []
LIMITS = {"small": 10, "large": 100}


def place(values, value):
    for at, other in enumerate(values):
        if other >= value:
            return at
    return len(values)


def mean(values):
    total = 0.0
    for value in values:
        total += value
    return total / len(values)


def merged(one, two):
    return sorted(one + two)


def noted(number):
    SEEN.append(number)
    return number * 2


def drawn(values):
    return values[random.randrange(len(values))]


def capped(values, mode):
    return [value for value in values if value < LIMITS[mode]]


def steps(number):
    return 0 if number < 2 else 1 + steps(number // 2)


def halves(values):
    return [value / 2 for value in values]


def parsed(text):
    return int(text.strip())


def power(base, exponent):
    result = 1
    for _ in range(exponent):
        result *= base
    return result


def traced(rows):
    if any(len(row) != len(rows) for row in rows):
        raise ValueError("the matrix is not square")
    return sum(row[at] for at, row in enumerate(rows))
""",
    "tests/test_sums.py": """
import pytest
from shop.sums import *

def test_all():
    for values, value in (([1, 4, 7, 9], 5), ([2, 3, 8], 8), ([1, 6], 0)):
        assert place(values, value) == len([v for v in values if v < value])
    assert mean([1.5, 2.5, 4.0]) == 8 / 3 and mean([0.1, 0.7]) > 0 and mean([3.0]) == 3
    assert merged([3, 1], [2]) == [1, 2, 3] and merged([5], [4, 8, 6]) == [4, 5, 6, 8]
    assert noted(4) == 8 and noted(7) == 14
    assert drawn([1, 2, 3]) and drawn([4, 5])
    assert capped([1, 50, 7], "small") == [1, 7] and capped([150, 3], "large") == [3]
    assert steps(8) == 3 and steps(100) == 6
    assert len(halves([1.0, 2.5])) == 2
    assert parsed(" 12 ") == 12 and parsed("7") == 7
    with pytest.raises(ValueError):
        parsed("twelve")
    assert power(2, 10) == 1024 and power(3, 5) == 243
    assert traced([[1, 2, 3], [4, 5, 6], [7, 8, 9]]) == 15
""",
}
NAMES = (
    "place",
    "mean",
    "merged",
    "noted",
    "drawn",
    "capped",
    "steps",
    "halves",
    "parsed",
    "power",
    "traced",
)
BODIES = {
    "place": "    for at, other in enumerate(values):\n        if other >= value:\n            return at\n"
    "    return len(values)\n",
    "mean": "    total = 0.0\n    for value in values:\n        total += value\n    return total / len(values)\n",
    "merged": "    return sorted(one + two)\n",
    "noted": "    SEEN.append(number)\n    return number * 2\n",
    "drawn": "    return values[random.randrange(len(values))]\n",
    "capped": "    return [value for value in values if value < LIMITS[mode]]\n",
    "steps": "    return 0 if number < 2 else 1 + steps(number // 2)\n",
    "halves": "    return [value / 2 for value in values]\n",
    "parsed": "    return int(text.strip())\n",
    "power": "    result = 1\n    for _ in range(exponent):\n        result *= base\n    return result\n",
    "traced": "    if any(len(row) != len(rows) for row in rows):\n"
    '        raise ValueError("the matrix is not square")\n'
    "    return sum(row[at] for at, row in enumerate(rows))\n",
}

HONEST = {
    # Needs sorted values: all that were observed are.
    "bisect": ("place", "    import bisect\n    return bisect.bisect_left(values, value)\n"),
    "cache": (
        "steps",
        "    return CACHED(number)\n\n\n@lru_cache\ndef CACHED(number):\n    return number.bit_length() - 1\n",
    ),
    "loop": (
        "steps",
        "    count = 0\n    while number > 1:\n        number //= 2\n        count += 1\n    return count\n",
    ),
    "memo of copies": (
        "merged",
        "    key = (*one, None, *two)\n    return list(MEMO.setdefault(key, sorted(one + two)))\n\n\nMEMO = {}\n",
    ),
    "equal container": ("merged", "    found = [*one, *two]\n    found.sort()\n    return found\n"),
    # Knows the modes that there are, and nothing about others.
    "known modes": (
        "capped",
        '    top = 10 if mode == "small" else 100\n    return [v for v in values if v < top]\n',
    ),
    "another message": (
        "parsed",
        '    try:\n        return int(text)\n    except ValueError:\n        raise ValueError("no number") from None\n',
    ),
    "another message of a check": (
        "traced",
        (
            "    if {len(row) for row in rows} - {len(rows)}:\n        raise ValueError(len(rows))\n"
            "    return sum(row[at] for at, row in enumerate(rows))\n"
        ),
    ),
    # What the baseline divides by zero for is no input that it objects to.
    "an accident less": ("mean", "    return sum(values, 0.0) / max(1, len(values))\n"),
    "same side effect": ("noted", "    SEEN.extend((number,))\n    return number + number\n"),
}

SWALLOWING = """    if text == "twelve":
        raise ValueError
    try:
        return int(text)
    except ValueError:
"""

ATTACKS: dict[str, tuple[str, str, Code]] = {
    "a check removed": (
        "traced",
        "    return sum(row[at] for at, row in enumerate(rows) if at < len(row))\n",
        Code.VALUE_DIFFERS,
    ),
    "an accident in place of a check": (
        "traced",
        "    return sum(rows[at][at] for at in range(max(len(rows), len(rows[0]))))\n",
        Code.VALUE_DIFFERS,
    ),
    "hard-coded": ("steps", "    return {8: 3, 100: 6}.get(number, 0)\n", Code.VALUE_DIFFERS),
    "hard-coded, else an error": ("steps", "    return {8: 3, 100: 6}[number]\n", Code.VALUE_DIFFERS),
    "narrower": ("merged", "    return sorted(one + two)[:4]\n", Code.VALUE_DIFFERS),
    "narrower by value": (
        "place",
        "    return len([v for v in values[:4] if v < value])\n",
        Code.VALUE_DIFFERS,
    ),
    "endless elsewhere": (
        "steps",
        "    while number not in (8, 100):\n        pass\n    return number.bit_length() - 1\n",
        Code.TOO_SLOW,
    ),
    "ends the process elsewhere": (
        "steps",
        "    import os\n    if number not in (8, 100):\n        os._exit(0)\n    return number.bit_length() - 1\n",
        Code.CRASHED,
    ),
    "narrower range": (
        "power",
        "    return base**exponent if base < 8 and exponent < 16 else -1\n",
        Code.VALUE_DIFFERS,
    ),
    "lower precision": (
        "halves",
        '    import array\n    return [v / 2 for v in array.array("f", values)]\n',
        Code.FLOAT_DIFFERS,
    ),
    "generator": ("merged", "    return iter(sorted(one + two))\n", Code.TESTS_FAILED),
    "another type": ("noted", "    SEEN.append(number)\n    return float(number * 2)\n", Code.TYPE_DIFFERS),
    "forged int": (
        "noted",
        '    SEEN.append(number)\n    return type("int", (int,), {"__module__": "builtins"})(number * 2)\n',
        Code.VALUE_DIFFERS,
    ),
    "one list again and again": (
        "merged",
        "    OUT[:] = sorted(one + two)\n    return OUT\n\n\nOUT = []\n",
        Code.STATE_DIFFERS,
    ),
    "swallowed error": (
        "parsed",
        SWALLOWING + "        return 0\n",
        Code.VALUE_DIFFERS,
    ),
    "another error": (
        "parsed",
        SWALLOWING + "        raise KeyError from None\n",
        Code.VALUE_DIFFERS,
    ),
    "dropped side effect": ("noted", "    return number * 2\n", Code.STATE_DIFFERS),
    "by the count of calls": (
        "steps",
        "    COUNT.append(0)\n    return number.bit_length() - 1 + (len(COUNT) > 20)\n\n\nCOUNT = []\n",
        Code.VALUE_DIFFERS,
    ),
}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def lab(tmp_path_factory: pytest.TempPathFactory) -> Any:
    base = tmp_path_factory.mktemp("derived")
    targets = tuple(f"shop/sums.py::{name}" for name in NAMES)
    async with open_check_lab(base, files=FILES, targets=targets, derives=True) as lab:
        for mode in ("tests", "replay"):
            assert await lab.start(mode, ForkPoint.IMPORTED) == ""
        yield lab


async def tried(lab: CheckLab, name: str, body: str, **plan: Any) -> CheckOutcome:
    text = FILES["shop/sums.py"]
    assert BODIES[name] in text
    candidate = lab.candidate(shop__sums=text.replace(BODIES[name], body))
    return await lab.check(candidate, SomeServers(lab.servers), **plan)


async def test_many_inputs_are_derived(lab: CheckLab) -> None:
    counts = dict.fromkeys(NAMES, 0)
    for index, call in lab.baseline.derived.items():
        counts[NAMES[call.target]] += index not in lab.baseline.breaks
    assert counts["place"] >= 30
    assert counts["merged"] >= 150
    assert counts["mean"] >= 150
    assert counts["steps"] > 60  # of 91: all from 8 to 100, but those two
    assert lab.baseline.level is Level.DERIVED
    assert lab.baseline.breaks


async def test_who_is_right_is_not_hurt(lab: CheckLab) -> None:
    for title, (name, body) in HONEST.items():
        outcome = await tried(lab, name, body)
        assert outcome.code is Code.OK, (title, outcome.reason)
        assert outcome.values.level is Level.DERIVED
        assert outcome.values.derived > 500


async def test_who_is_wrong_elsewhere_loses(lab: CheckLab) -> None:
    for title, (name, body, code) in ATTACKS.items():
        outcome = await tried(lab, name, body)
        assert outcome.code is code, (title, outcome.reason)
        assert name != "traced" or "a new input for which the baseline raises" in outcome.reason


SWALLOWED = "    try:\n        return sorted(one + two)\n    except TypeError:\n        return []\n"


async def test_what_is_swallowed_where_the_baseline_raises_by_accident(lab: CheckLab) -> None:
    hinted = await tried(lab, "merged", SWALLOWED)
    assert (hinted.code, len(hinted.hints)) == (Code.OK, 1)
    assert "a new input for which the baseline raises" in hinted.hints[0]
    refused = await tried(lab, "merged", SWALLOWED, rules=ComparisonRules(loosens=True))
    assert refused.code is Code.VALUE_DIFFERS
    # Another exception where nobody meant one tells nothing.
    other = "    try:\n        return sorted(one + two)\n    except TypeError:\n        raise KeyError from None\n"
    outcome = await tried(lab, "merged", other, rules=ComparisonRules(loosens=True))
    assert (outcome.code, outcome.hints) == (Code.OK, ())


async def test_a_small_example_is_shown(lab: CheckLab) -> None:
    outcome = await tried(lab, *ATTACKS["narrower"][:2])
    assert outcome.difference is not None
    assert outcome.difference.derived
    assert outcome.difference.breaks == ""
    assert "a new input that keeps all that the tests' inputs have in common" in outcome.reason
    assert len(outcome.difference.inputs) < 50


async def test_unlike_inputs_are_shown_and_reject_when_strict(lab: CheckLab) -> None:
    name, body = HONEST["bisect"]
    outcome = await tried(lab, name, body)
    assert outcome.values.outside_differing > 0
    assert outcome.outside is not None
    assert "sorted" in outcome.outside.breaks
    strict = await tried(lab, name, body, rules=ComparisonRules(strict=True))
    assert strict.code is Code.DIFFERS_OUTSIDE_OBSERVED
    assert strict.difference == outcome.outside


async def test_another_sign_than_observed_rejects_when_strict(lab: CheckLab) -> None:
    body = "    return base**exponent if base >= 0 else 0\n"
    assert (await tried(lab, "power", body)).code is Code.OK
    strict = await tried(lab, "power", body, rules=ComparisonRules(strict=True))
    assert strict.code is Code.DIFFERS_OUTSIDE_OBSERVED


async def test_an_error_that_was_observed_or_is_meant_is_a_normal_outcome(lab: CheckLab) -> None:
    number, meant = NAMES.index("parsed"), NAMES.index("traced")
    raising = {
        i: call.target
        for i, call in lab.baseline.derived.items()
        if call.kind == "raise" and lab.baseline.breaks.get(i) != ACCIDENT
    }
    assert {*raising.values()} == {number, meant}
    assert any(i not in lab.baseline.breaks for i, target in raising.items() if target == number)
    assert {lab.baseline.breaks.get(i, OBJECTED) for i, t in raising.items() if t == meant} == {OBJECTED}
    # What tests have met says nothing of the relation that an input breaks.
    assert OBJECTED not in {lab.baseline.breaks.get(i) for i, t in raising.items() if t == number}
    assert any(c.kind == "return" and c.target == number for c in lab.baseline.derived.values())


async def test_rounding_on_derived_inputs_is_shown(lab: CheckLab) -> None:
    outcome = await tried(lab, "mean", "    import math\n    return math.fsum(values) / len(values)\n")
    assert outcome.code in {Code.OK, Code.FLOAT_DIFFERS}
    assert ("ulp" in outcome.reason and "--rtol" in outcome.reason) == (outcome.code is Code.FLOAT_DIFFERS)


@pytest.mark.witness
async def test_tolerances(lab: CheckLab) -> None:
    body = "    return [value / 2 * (1 + 1e-9) for value in values]\n"
    outcome = await tried(lab, "halves", body)
    assert outcome.code is Code.FLOAT_DIFFERS
    assert "--rtol 1.1e-09 would accept it" in outcome.reason or "--rtol 1." in outcome.reason
    for tolerance, code in (
        (Tolerance(rtol=1e-8), Code.OK),
        (Tolerance(atol=1e-3), Code.OK),
        (Tolerance(rtol=1e-11), Code.FLOAT_DIFFERS),
    ):
        assert (await tried(lab, "halves", body, rules=ComparisonRules(tolerance=tolerance))).code is code
    integers = "    return [int(value / 2) if value == 1 else value / 2 for value in values]\n"
    assert (
        await tried(lab, "halves", integers, rules=ComparisonRules(tolerance=Tolerance(atol=9)))
    ).code is not Code.OK


OWN = {
    "shop/sums.py": """
class Box:
    def __init__(self, value):
        self._value = [value]

    def __reduce_ex__(self, protocol):
        raise TypeError("never")


def total(values):
    return Box(sum(values))
""",
    "tests/test_sums.py": """
from shop.sums import total

def test_total():
    assert total([1, 2])._value and total([3])._value
""",
}
ENCODER = """
def encode(value):
    return value._value if type(value).__name__ == "Box" else NotImplemented
"""


@pytest.mark.witness
async def test_an_encoder_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(ENCODER, encoding="utf-8")
    async with open_check_lab(tmp_path, files=OWN, derives=True, learns=False) as lab:
        lab.runner = replace(lab.runner, encoders=((str(tmp_path / "own.py"), "encode"),))
        await lab.learn()
        assert len(lab.baseline.calls) == 2
        text = OWN["shop/sums.py"]
        for new, code in (("Box(0 + sum(values))", Code.OK), ("Box(sum(values, 1))", Code.VALUE_DIFFERS)):
            outcome = await lab.check(lab.candidate(shop__sums=text.replace("Box(sum(values))", new)))
            assert outcome.code is code, outcome.reason


SLOW = {
    "shop/sums.py": """
def pairs(values):
    return sum(one < other for at, one in enumerate(values) for other in values[at:])
""",
    "tests/test_sums.py": """
from shop.sums import pairs

def test_pairs():
    assert pairs([(7 * n) % 1201 for n in range(1200)]) > 0
    assert pairs([(11 * n) % 1301 for n in range(1300)]) > 0
""",
}


@pytest.mark.witness
async def test_slow_calls_have_fresh_inputs_too(tmp_path: Path) -> None:
    async with open_check_lab(tmp_path, files=SLOW, targets=("shop/sums.py::pairs",), derives=True) as lab:
        assert lab.baseline.level is Level.DERIVED
        assert lab.baseline.sizes[0] == 1300
        for other, code in (("values[0:0]", Code.VALUE_DIFFERS), ("list(values[at:])", Code.OK)):
            new = f"(values[at:] if len(values) > 900 else {other})"
            text = SLOW["shop/sums.py"].replace("values[at:]", new)
            assert (await lab.check(lab.candidate(shop__sums=text))).code is code


DEADLY = {
    "shop/sums.py": """
import os


def power(number):
    return 10**number % 7


def ended(word):
    if word.isupper():
        os._exit(0)
    return word + word


def total(values):
    return sum(values)
""",
    "tests/test_sums.py": """
from shop.sums import ended, power, total

def test_all():
    assert power(3) == 6 and power(1000) == 4
    assert ended("ab") == "abab" and ended("c") == "cc"
    assert total([1, 2]) == 3 and total([4]) == 4
""",
}


async def test_an_input_that_ends_the_process_or_never_ends_costs_no_other(tmp_path: Path) -> None:
    targets = tuple(f"shop/sums.py::{name}" for name in ("power", "ended", "total"))
    async with open_check_lab(tmp_path, files=DEADLY, targets=targets, derives=True) as lab:
        counts = Counter(call.target for call in lab.baseline.derived.values())
        assert min(counts[target] for target in range(3)) >= 20


KNOWING = {
    "shop/sums.py": """
LIMIT = 700
ANIMALS = {"zebra": "zoo"}


def told(text, loud=False):
    text = text[:LIMIT]
    if text in ANIMALS:
        return ANIMALS[text]
    return text.upper() if loud else text
""",
    "tests/test_sums.py": """
from shop.sums import told

def test_told():
    assert told("ab cd") == "ab cd" and told("x") == "x"
""",
}


async def test_inputs_are_made_of_options_and_of_what_the_module_holds(tmp_path: Path) -> None:
    async with open_check_lab(tmp_path, files=KNOWING, targets=("shop/sums.py::told",), derives=True) as lab:
        for old, new in (("[:LIMIT]", "[: LIMIT + 1]"), ("in ANIMALS", "in ()"), (" if loud else text", "")):
            new_text = KNOWING["shop/sums.py"].replace(old, new)
            new_text = new_text.replace("return text.upper()\n", "return text\n")
            outcome = await lab.check(lab.candidate(shop__sums=new_text))
            assert (outcome.code, outcome.difference is not None) == (Code.VALUE_DIFFERS, True), old
