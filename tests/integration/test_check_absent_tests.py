"""Calls are made again where no test lies; honest calls that need something of the tests are not lost."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from check_lab import CheckLab, SomeServers, open_check_lab

from codeflash_parallel.check.dispatch.fork_points import ForkPoint
from codeflash_parallel.result.outcome_codes import Code, Level
from codeflash_parallel.workspace.slot.slot import HiddenFiles, SlotTrash
from codeflash_parallel.workspace.tree_guard import TreeGuard

pytestmark = [pytest.mark.anyio, pytest.mark.engine]

FILES = {
    "shop/sums.py": """
import os

def total(values):
    result = 0
    for value in values:
        result += value
    return result

def first_line(path):
    with open(path) as file:
        return file.readline()

def name_of(thing):
    return thing.name
""",
    "tests/__init__.py": "",
    "tests/data/a.txt": "one\ntwo\n",
    "tests/test_sums.py": """
import os
import pytest
from shop.sums import first_line, name_of, total

class Thing:
    name = "thing"

@pytest.mark.parametrize("values", [[], [1], [1, 2, 3], [4, 2]])
def test_total(values):
    assert total(values) == sum(values)

def test_first_line():
    assert first_line(os.path.join(os.path.dirname(__file__), "data", "a.txt")) == "one\\n"

def test_name():
    assert name_of(Thing()) == "thing"
""",
    "tests/test_helper.py": "def test_nothing():\n    pass\n",
}
TARGETS = ("shop/sums.py::total", "shop/sums.py::first_line", "shop/sums.py::name_of")
BESIDE = "os.path.exists(os.path.join(os.path.dirname(__file__), '..', 'tests', 'test_sums.py'))"


class LabTree:
    """A lab's tree as a slot would have it, made when it is first asked for."""

    def __init__(self, base: Path) -> None:
        self.base, self.asked = base, 0

    @asynccontextmanager
    async def without(self, paths: Sequence[str], /) -> AsyncIterator[None]:
        drop = SlotTrash(self.base).drop
        guard = TreeGuard(self.base / "root", lambda _: {}, drop)
        aside = HiddenFiles(tree=guard, folder=self.base, drop=drop)
        aside.put(paths)
        self.asked += 1
        try:
            yield
        finally:
            aside.back()
            assert guard.changes() == ()


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[CheckLab]:
    tree = LabTree(tmp_path)
    async with open_check_lab(tmp_path, files=FILES, targets=TARGETS, derives=True, tree=tree) as lab:
        yield lab


def cheating(lab: CheckLab) -> str:
    text = (lab.root / "shop/sums.py").read_text(encoding="utf-8")
    return text.replace("    return result\n", f"    return result if {BESIDE} else 0\n")


@pytest.mark.attack
async def test_who_is_right_only_beside_the_tests_is_rejected(lab: CheckLab) -> None:
    assert lab.baseline.level is Level.DERIVED
    assert {"tests", "tests/test_sums.py"} & set(lab.baseline.aside)
    cheat = lab.candidate(shop__sums=cheating(lab))
    found = await lab.check(cheat)
    assert found.code is Code.VALUE_DIFFERS, found.reason
    for point in (ForkPoint.IMPORTED, ForkPoint.COLLECTED):
        assert await lab.start("replay", point) == ""
        forked = await lab.check(cheat, SomeServers(lab.servers, (point,)))
        assert forked.code is Code.VALUE_DIFFERS, forked.reason


async def test_calls_that_need_something_of_the_tests_are_compared_all_the_same(lab: CheckLab) -> None:
    targets = {lab.baseline.calls[index].target for index in lab.baseline.calls}
    assert targets == {0, 1, 2}
    kept = {lab.baseline.calls[index].target for index in lab.baseline.sheltered}
    assert kept <= {1, 2}
    assert 2 in kept, "its argument is of a class of the tests"
    text = (lab.root / "shop/sums.py").read_text(encoding="utf-8")
    honest = await lab.check(
        lab.candidate(shop__sums=text.replace("result += value", "result = result + value"))
    )
    assert honest.code is Code.OK, honest.reason
    assert honest.values.compared == len(lab.baseline.calls)
    outside = "('' if 'PYTEST_CURRENT_TEST' in os.environ else '!')"
    for old in ("return thing.name", "return file.readline()"):
        found = await lab.check(lab.candidate(shop__sums=text.replace(old, f"{old} + {outside}")))
        assert found.code is Code.VALUE_DIFFERS, old


@pytest.mark.witness
async def test_a_candidate_whose_calls_all_need_the_tests_is_compared_there(tmp_path: Path) -> None:
    tree = LabTree(tmp_path)
    targets = ("shop/sums.py::name_of",)
    async with open_check_lab(tmp_path, files=FILES, targets=targets, derives=True, tree=tree) as lab:
        assert set(lab.baseline.sheltered) == set(lab.baseline.calls) != set()
        text = (lab.root / "shop/sums.py").read_text(encoding="utf-8")
        codes = {
            "return getattr(thing, 'name')": Code.OK,
            "return thing.name + ('' if 'PYTEST_CURRENT_TEST' in os.environ else '!')": Code.VALUE_DIFFERS,
        }
        for new, code in codes.items():
            found = await lab.check(lab.candidate(shop__sums=text.replace("return thing.name", new)))
            assert found.code is code, found.reason
