"""The history of kills: what caught most comes first, what cannot be read does no harm."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.candidates.target import Target
from codeflash_parallel.check.kill_history import MOST_HISTORIES, MOST_TESTS, Kills, bounded, merged, ranked

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
