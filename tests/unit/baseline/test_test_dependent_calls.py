"""Which files lie elsewhere while calls are made again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from codeflash_parallel.baseline.input_derivation import BaselineReplayer, FirstReplay
from codeflash_parallel.baseline.test_dependent_calls import absences, replayed, warnings_of
from codeflash_parallel.check.session.runner_report import CallOutcome, RunnerReport


def test_folders_of_tests_go_as_a_whole_and_test_files_beside_code_alone() -> None:
    files = [
        "lib.py",
        "test_lib.py",
        "conftest.py",
        "tests/test_a.py",
        "tests/data/a.csv",
        "shop/sums_test.py",
    ]
    most, alone = absences(files, [], ".", {"lib.py"})
    assert most == ("tests", "conftest.py", "shop/sums_test.py", "test_lib.py")
    assert alone == ("conftest.py", "shop/sums_test.py", "test_lib.py", "tests/test_a.py")


def test_a_folder_that_holds_a_target_stays() -> None:
    files = ["testing/lib.py", "testing/test_lib.py", "testing/tests/test_more.py"]
    assert absences(files, [], ".", {"testing/lib.py"}) == (
        ("testing/test_lib.py", "testing/tests/test_more.py"),
    )


def test_the_target_itself_stays_whatever_it_is_called() -> None:
    assert absences(["test_tools.py"], ["test_tools.py::test_it"], ".", {"test_tools.py"}) == ()


def test_files_that_only_the_configuration_calls_tests_go_too() -> None:
    files = ["sub/checks/sums.py", "sub/lib.py", "README.rst"]
    asked = ["checks/sums.py::TestSums::test_it", "lib.py::lib.total", "README.rst::README.rst"]
    assert absences(files, asked, "sub", {"other.py"}) == (("sub/checks/sums.py",),)


def test_without_tests_there_is_nothing_to_do_without() -> None:
    assert absences(["lib.py", "data/test_input.csv"], [], "", ()) == ()


pytestmark = pytest.mark.anyio

FOLDERS, FILES = ("tests",), ("tests/test_a.py",)


@dataclass
class Making:
    """Replays of a project whose calls need some of the tests, by number, or never come out as they were."""

    needs: Mapping[int, Sequence[str]]
    aside: tuple[str, ...] = ()
    made: list[tuple[str, tuple[str, ...], tuple[int, ...]]] = field(default_factory=list)

    def _report(self, time: str, made: Sequence[int]) -> RunnerReport:
        self.made.append((time, self.aside, tuple(made)))
        missing = {"tests": {"tests/test_a.py", "tests/data"}}.get("".join(self.aside), set(self.aside))
        there = tuple(_call(i) for i in made if not missing & set(self.needs.get(i, ())) and i in self.needs)
        return RunnerReport(calls=there)

    async def first(self, made: Sequence[int]) -> FirstReplay:
        return FirstReplay(self._report("first", made), ended_s=0.0)

    async def second(
        self, _first: FirstReplay, _captured: Mapping[int, CallOutcome], made: Sequence[int]
    ) -> RunnerReport:
        return self._report("second", made)


def _call(index: int) -> CallOutcome:
    return CallOutcome(index=index, test="t", target=0, kind="return", digest=str(index), after="")


async def _replayed(making: Making, calls: int) -> Any:
    return await replayed(
        cast("BaselineReplayer", making), {i: _call(i) for i in range(calls)}, (FOLDERS, FILES)
    )


async def test_who_needs_nothing_is_replayed_twice_without_any_of_it() -> None:
    making = Making({0: (), 1: ()})
    found = await _replayed(making, 2)
    assert (tuple(found.found.calls), found.aside, found.sheltered) == ((0, 1), FOLDERS, ())
    assert making.made == [("first", FOLDERS, (0, 1)), ("second", FOLDERS, (0, 1))]
    assert warnings_of(found) == ()


async def test_what_nothing_saves_is_tried_once_with_everything_there() -> None:
    making = Making({0: ()})
    found = await _replayed(making, 2)
    assert (tuple(found.found.calls), found.aside, found.sheltered, len(found.found.bound)) == (
        (0,),
        FOLDERS,
        (),
        1,
    )
    assert making.made == [("first", FOLDERS, (0, 1)), ("first", (), (1,)), ("second", FOLDERS, (0, 1))]


async def test_who_needs_data_only_is_replayed_without_the_files_of_tests() -> None:
    making = Making({0: (), 1: ("tests/data",)})
    found = await _replayed(making, 2)
    assert (tuple(found.found.calls), found.aside, found.sheltered, len(found.found.bound)) == (
        (0, 1),
        FILES,
        (),
        0,
    )


async def test_who_needs_a_test_is_sheltered() -> None:
    making = Making({0: (), 1: ("tests/test_a.py",), 2: ("tests/data",)})
    found = await _replayed(making, 4)
    assert (tuple(found.found.calls), found.aside, found.sheltered) == ((0, 1, 2), FILES, (1,))
    assert list(found.found.bound) == [3]
    # No level and no call is made for a second time but those that count.
    assert making.made == [
        ("first", FOLDERS, (0, 1, 2, 3)),
        ("first", (), (1, 2, 3)),
        ("first", FILES, (0, 1, 2, 3)),
        ("second", FILES, (0, 1, 2, 3)),
        ("second", (), (1, 2, 3)),
    ]
    assert warnings_of(found) == (
        "1 of 3 captured calls need something of the tests: they are made again with the tests beside them.",
    )


async def test_without_calls_nothing_is_made() -> None:
    making = Making({})
    found = await _replayed(making, 0)
    assert (found.found.calls, found.replays, making.made) == ({}, (), [])
