"""Replays on the baseline: in which second they begin, and what may depend on their order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import time
from typing import Any, cast

import pytest

from codeflash_parallel.baseline.baseline_findings import without_arguments
from codeflash_parallel.baseline.baseline_replay import (
    HISTORY,
    BaselineReplayer,
    FirstReplay,
    absences,
    replayed,
    sorted_out,
    warnings_of,
)
from codeflash_parallel.check.session.runner_report import CallOutcome, DerivedInput, RunnerReport
from codeflash_parallel.config.environment import HASH_SEEDS

pytestmark = pytest.mark.anyio


@dataclass(frozen=True, kw_only=True)
class Asked(BaselineReplayer):
    """Replays that give the same each time, and say in which second that was."""

    got: RunnerReport
    digest: Callable[[int, int, Sequence[int]], str] = lambda *_: ""
    seconds: list[int] = field(default_factory=list)

    async def _replay(self, seed: int, calls: Sequence[int], derived: Sequence[int]) -> RunnerReport:
        """Give what is given each time, and of a derived call what `digest` says of the ones before it."""
        self.seconds.append(int(time()))
        made = [
            replace(_call(self.digest(seed, index, derived[:place])), index=index)
            for place, index in enumerate(derived)
        ]
        return replace(self.got, calls=(*self.got.calls, *made))


def _asked(
    captured_s: float, digest: Callable[[int, int, Sequence[int]], str] = lambda *_: "", **got: Any
) -> Asked:
    nothing = cast("Any", None)
    more: dict[str, Any] = {
        "captured_s": captured_s,
        "got": RunnerReport(**got),
        "limits": nothing,
        "steps": nothing,
    }
    return Asked(runner=nothing, workspace=nothing, inputs=Path(), digest=digest, **more)


def _call(digest: str, after: str = "left") -> CallOutcome:
    return CallOutcome(index=0, test="t", target=0, kind="return", digest=digest, after=after)


@pytest.mark.slow
async def test_the_second_replay_begins_in_a_later_second_than_the_captured_calls() -> None:
    captured_s = time()
    asked = _asked(captured_s, calls=(_call("seen"),))
    await asked.run({0: _call("seen")}, [0], RunnerReport())
    assert len(asked.seconds) == 2
    assert asked.seconds[1] > int(captured_s)


@pytest.mark.slow
@pytest.mark.parametrize(
    "got",
    [
        {"calls": (_call("other"),)},
        {"calls": (_call("seen", after="other"),)},
        {"calls": (_call("seen"),), "changed_globals": {"m.LAST": "digest"}},
    ],
)
async def test_if_the_first_replay_may_tell_seconds_the_second_begins_in_a_later_one(got: Any) -> None:
    asked = _asked(0.0, **got)
    await asked.run({0: _call("seen")}, [0], RunnerReport())
    assert asked.seconds[1] > asked.seconds[0]


FRESH = RunnerReport(derived={index: DerivedInput(base=0) for index in range(1, 9)})


async def _breaks(digest: Callable[[int, int, Sequence[int]], str]) -> dict[int, str]:
    """Return the derived calls that are kept, and which relation each breaks."""
    asked = _asked(0.0, digest, calls=(_call("seen"),))
    _, found = await asked.run({0: _call("seen")}, [0], FRESH)
    return {index: found.breaks.get(index, "") for index in found.calls}


async def test_where_outcomes_depend_on_the_order_of_calls_no_derived_call_vouches() -> None:
    """Call 7 tells whether 8 came before it. Call 3 gives something else once 7 is left out."""

    def digest(_seed: int, index: int, before: Sequence[int]) -> str:
        told = {7: 8 in before, 3: 8 in before and 7 not in before}
        return str(told.get(index))

    assert await _breaks(digest) == dict.fromkeys((1, 2, 4, 5, 6, 8), HISTORY)


async def test_what_gives_the_same_in_any_order_vouches_though_other_calls_depend_on_the_hash_seed() -> None:
    kept = await _breaks(lambda seed, index, _before: f"{seed if index > 5 else 0}")
    assert kept == dict.fromkeys(range(1, 6), "")
    assert HASH_SEEDS[0] != HASH_SEEDS[1]


async def test_outcomes_that_no_order_of_the_rest_changes_vouch() -> None:
    kept = await _breaks(lambda _seed, index, _before: f"{index}")
    assert kept == dict.fromkeys(range(1, 9), "")


@pytest.mark.parametrize(("remembers", "kept"), [(False, 1), (True, 2)])
def test_objects_that_remember_what_was_asked_of_them_are_compared_by_what_was_given(
    remembers: bool, kept: int
) -> None:
    """Assumptions of sympy are worked out when they are needed, and kept: other questions fill others."""
    captured = {0: without_arguments(_call("seen")) if remembers else _call("seen")}
    replays = [
        RunnerReport(
            calls=(
                _fresh(1, after="left", traces="random=1;lasting=yes"),
                _fresh(2, after=after, traces="random=1;lasting=yes"),
            )
        )
        for after in ("some", "others")
    ]
    found = sorted_out(FRESH, captured, replays)
    assert len(found.calls) == kept
    expected = ("", "random=1") if remembers else ("left", "random=1;lasting=yes")
    assert {(call.after, call.traces) for call in found.calls.values()} == {expected}


def _fresh(index: int, **fields: str) -> CallOutcome:
    return replace(_call("given"), index=index, type="shop.Sum", **fields)


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
        there = tuple(
            _numbered(i) for i in made if not missing & set(self.needs.get(i, ())) and i in self.needs
        )
        return RunnerReport(calls=there)

    async def first(self, made: Sequence[int]) -> FirstReplay:
        return FirstReplay(self._report("first", made), ended_s=0.0)

    async def second(
        self, _first: FirstReplay, _captured: Mapping[int, CallOutcome], made: Sequence[int]
    ) -> RunnerReport:
        return self._report("second", made)


def _numbered(index: int) -> CallOutcome:
    return CallOutcome(index=index, test="t", target=0, kind="return", digest=str(index), after="")


async def _replayed(making: Making, calls: int) -> Any:
    return await replayed(
        cast("BaselineReplayer", making), {i: _numbered(i) for i in range(calls)}, (FOLDERS, FILES)
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
