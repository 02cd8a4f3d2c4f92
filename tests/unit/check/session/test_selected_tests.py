"""Which tests run, in which order, and when an order could be to blame."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.candidates.functions import Target
from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.session.runner_report import RunnerReport
from codeflash_parallel.check.session.selected_tests import (
    LONG_SUITE_S,
    MOST_HISTORIES,
    MOST_TESTS,
    ConfirmationNeed,
    Kills,
    ScreeningPlan,
    as_baseline,
    bounded,
    by_file,
    called_at_import,
    executing_tests,
    longest_first,
    merged,
    ranked,
    rejection_needs,
    screening,
    selected_tests,
    tolerated,
    unselected,
    xdist_workers,
)

IDS = st.sampled_from([f"{file}.py::{test}" for file in "abc" for test in "xyz"])
ORDERS = st.lists(IDS, unique=True)


def report(executed: dict[str, int], spawned: tuple[str, ...] = ()) -> RunnerReport:
    counts = {(test, 0): calls for test, calls in executed.items()}
    return RunnerReport(collected=("a.py::x", "a.py::y", "b.py::x"), executed=counts, spawned=spawned)


def test_tests_that_execute_a_target_or_start_processes_are_selected_as_collected() -> None:
    ran = report({"b.py::x": 2, "a.py::y": 0}, spawned=("a.py::x",))
    assert executing_tests(ran) == ("b.py::x",)
    assert selected_tests(ran, targets=1) == ("a.py::x", "b.py::x")


def test_all_tests_where_nobody_knows_which_notice() -> None:
    unknown = [
        report({"b.py::x": 2, "": 1}),
        report({"b.py::x": 2}, spawned=("a.py::x", "")),
        report({}),
        report({}, spawned=("a.py::x",)),
    ]
    for ran in unknown:
        assert selected_tests(ran, targets=1) == ran.collected
    assert selected_tests(report({"b.py::x": 1}), targets=0) == report({}).collected
    assert called_at_import(report({"": 1}))
    assert not called_at_import(report({"a.py::x": 1, "": 0}))


@given(ORDERS, st.dictionaries(IDS, st.integers(0, 100)))
def test_by_file_is_an_order_that_keeps_files_together_and_as_they_were(
    tests: list[str], durations: dict[str, int]
) -> None:
    ordered = by_file(tests, durations)
    assert sorted(ordered) == sorted(tests)
    files = [test[0] for test in ordered]
    groups = list(dict.fromkeys(files))
    assert files == sorted(files, key=groups.index)
    for file in groups:
        assert [t for t in ordered if t[0] == file] == [t for t in tests if t[0] == file]
    means = [sum(durations.get(t, 0) for t in ordered if t[0] == file) / files.count(file) for file in groups]
    assert means == sorted(means)


def baseline(order: Sequence[str], **fields: object) -> Baseline:
    known = Baseline(
        targets=("m.py::f",),
        python="3.11",
        pytest="8",
        plugins=(),
        rootdir=".",
        inifile="",
        selected=tuple(sorted(order)),
        expected=dict.fromkeys(order, "passed"),
        executing=tuple(order),
        order=tuple(order),
    )
    return replace(known, **fields)  # type: ignore[arg-type]


@given(ORDERS, st.lists(IDS))
def test_screening_runs_the_same_tests_killers_first(order: list[str], killers: list[str]) -> None:
    screened = screening(baseline(order), killers, 0)
    assert sorted(screened.tests) == sorted(order)
    known = [test for test in dict.fromkeys(killers) if test in order]
    assert list(screened.tests[: len(known)]) == known
    others = [test for test in order if test not in known]
    assert list(screened.tests[len(known) :]) == others
    assert screened.killers in (frozenset(known), frozenset())


@given(ORDERS, st.lists(IDS), st.integers(0, 3))
def test_an_order_that_matters_is_left_alone(order: list[str], killers: list[str], workers: int) -> None:
    sensitive = baseline(order, order_sensitive=True)
    assert (
        screening(sensitive, killers, workers) == as_baseline(sensitive) == ScreeningPlan(tests=tuple(order))
    )


def test_without_an_order_of_its_own_the_baseline_was_run_as_collected() -> None:
    assert as_baseline(replace(baseline(["b", "a"]), order=())).tests == ("a", "b")


def test_killers_that_are_in_front_anyway_move_nothing() -> None:
    order = ("a.py::x", "b.py::x")
    assert screening(baseline(order), ["a.py::x"], 0).killers == frozenset()


def test_several_processes_get_the_longest_first() -> None:
    known = baseline(("a", "b", "c", "d"), durations_ns={"b": 5, "c": 9, "d": 5})
    screened = screening(known, ["d"], 2)
    assert screened == ScreeningPlan(tests=("d", "c", "b", "a"), killers=frozenset("d"), workers=2)


@given(ORDERS, st.dictionaries(IDS, st.integers(0, 5)))
def test_longest_first_is_an_order(tests: list[str], durations: dict[str, int]) -> None:
    ordered = longest_first(tests, durations)
    assert sorted(ordered) == sorted(tests)
    lengths = [durations.get(test, 0) for test in ordered]
    assert lengths == sorted(lengths, reverse=True)


def test_what_a_rejection_needs() -> None:
    plain = ScreeningPlan(tests=("a", "b", "c"))
    moved = ScreeningPlan(tests=("c", "a", "b"), killers=frozenset("c"))
    spread = ScreeningPlan(tests=("a", "b", "c"), workers=2)
    assert rejection_needs(plain, ["b"]) is ConfirmationNeed.NOTHING
    assert rejection_needs(plain, []) is ConfirmationNeed.NOTHING
    assert rejection_needs(moved, ["c"]) is ConfirmationNeed.NOTHING
    assert rejection_needs(moved, ["a"]) is ConfirmationNeed.AS_BASELINE
    assert rejection_needs(moved, ["c", "a"]) is ConfirmationNeed.AS_BASELINE
    assert rejection_needs(moved, []) is ConfirmationNeed.AS_BASELINE
    assert rejection_needs(spread, ["a"]) is ConfirmationNeed.AS_BASELINE
    assert rejection_needs(replace(moved, workers=2), ["c"]) is ConfirmationNeed.AS_BASELINE


def test_what_is_left_out_and_what_says_nothing() -> None:
    assert unselected(["a", "b", "c"], ["b"]) == ("a", "c")
    assert tolerated(["a", "b"], {"a": "passed"}) == ("b",)


def test_an_order_is_told_only_where_it_differs() -> None:
    assert ScreeningPlan(tests=("a", "b")).in_changed_order(("a", "b")) == ()
    assert ScreeningPlan(tests=("b", "a")).in_changed_order(("a", "b")) == ("b", "a")


COUNTS = st.integers(0, 20)


@given(st.floats(0, 100), st.integers(1, 20), st.integers(1, 20), COUNTS, st.booleans())
def test_no_more_processes_than_cores_that_nobody_wants(
    suite_s: float, cores: int, in_use: int, waiting: int, has_xdist: bool
) -> None:
    workers = xdist_workers(suite_s=suite_s, cores=cores, in_use=in_use, waiting=waiting, has_xdist=has_xdist)
    lends = has_xdist and suite_s >= LONG_SUITE_S and cores > in_use + waiting
    assert workers == (cores - in_use - waiting + 1 if lends else 0)
    assert workers != 1


TARGETS = (Target(path="a.py", qualname="f"), Target(path="a.py", qualname="g"))


def only_file(home: Path) -> Path:
    (path,) = (home / "kills").iterdir()
    return path


def test_a_run_learns_from_those_before_it(tmp_path: Path) -> None:
    first = Kills.load(tmp_path, TARGETS)
    assert first.order == ()
    for test in ("t::b", "t::a", "t::b"):
        first.add(test)
    assert first.order == ("t::b", "t::a")
    first.save()
    second = Kills.load(tmp_path, reversed(TARGETS))
    assert second.order == ("t::b", "t::a")
    second.add("t::c")
    second.add("t::c")
    assert second.order == ("t::c", "t::b", "t::a")


def test_other_targets_have_another_history(tmp_path: Path) -> None:
    kills = Kills.load(tmp_path, TARGETS)
    kills.add("t::a")
    kills.save()
    assert Kills.load(tmp_path, TARGETS[:1]).order == ()


def test_a_run_without_kills_writes_nothing(tmp_path: Path) -> None:
    Kills.load(tmp_path, TARGETS).save()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[1, 2]",
        "{",
        '{"t::a": "much", "t::b": true, "t::c": -1, "t::d": Infinity}',
        "[" * 100_000,
        "\udcff" * 3,
    ],
)
def test_what_makes_no_sense_is_no_history(tmp_path: Path, text: str) -> None:
    kills = Kills.load(tmp_path, TARGETS)
    kills.add("t::x")
    kills.save()
    only_file(tmp_path).write_bytes(text.encode("utf-8", "surrogateescape"))
    assert Kills.load(tmp_path, TARGETS).order == ()


def test_a_folder_in_its_place_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "kills").write_text("")
    kills = Kills.load(tmp_path, TARGETS)
    kills.add("t::a")
    kills.save()
    assert kills.order == ("t::a",)


def test_a_file_is_whole_and_holds_only_so_many(tmp_path: Path) -> None:
    kills = Kills.load(tmp_path, TARGETS)
    for number in range(MOST_TESTS + 50):
        kills.add(f"t::{number:04}")
    kills.save()
    assert len(json.loads(only_file(tmp_path).read_text())) == MOST_TESTS
    assert len(list((tmp_path / "kills").iterdir())) == 1


def test_there_are_only_so_many_histories(tmp_path: Path) -> None:
    for number in range(MOST_HISTORIES + 3):
        kills = Kills.load(tmp_path, (Target(path="a.py", qualname=f"f{number}"),))
        kills.add("t::a")
        kills.save()
    assert kills.order == ("t::a",)
    assert len(list((tmp_path / "kills").iterdir())) == MOST_HISTORIES
    assert Kills.load(tmp_path, (Target(path="a.py", qualname=f"f{number}"),)).order == ("t::a",)


weights = st.dictionaries(st.text(min_size=1, max_size=5), st.floats(0.001, 100), max_size=20)


@given(weights, weights)
def test_a_kill_of_this_run_outweighs_the_same_before(
    before: dict[str, float], now: dict[str, float]
) -> None:
    both = merged(before, now)
    assert both.keys() == before.keys() | now.keys()
    assert all(both[test] < before.get(test, 0) + now.get(test, 0) for test in before)
    assert sorted(ranked(both)) == sorted(both)
    assert bounded(both).items() <= both.items()
