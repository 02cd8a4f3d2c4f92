"""Ranking policies by name."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from codeflash_parallel.config.settings import RankingMode
from codeflash_parallel.race.ranking.ranking_result import POLICIES, TiedCandidate, ordered
from codeflash_parallel.result.errors import UsageError
from codeflash_parallel.run.race_phase.ranking_policy_loader import load_policy

LAST_FIRST = """
def last_first(tied):
    return [one.id for one in sorted(tied, key=lambda one: one.id, reverse=True)]

def forgets(tied):
    return [tied[0].id]

def raises(tied):
    return tied[7]

def leaves(tied):
    raise SystemExit(0)

def knows_two(tied):
    return [one.id for one in tied][:2]
"""
TIED = [
    TiedCandidate(id=name, speedup=2.0, low=1.9, high=2.1, changed_lines=3, is_level=True)
    for name in ("a", "b", "c")
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "own_rankings.py").write_text(LAST_FIRST)
    (tmp_path / "leaving.py").write_text("import sys\nsys.exit(0)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "own_rankings", raising=False)
    return tmp_path


def test_every_name_of_the_setting_is_a_policy() -> None:
    assert set(POLICIES) == set(RankingMode)
    assert [load_policy(name) for name in RankingMode] == [POLICIES[name] for name in RankingMode]


@pytest.mark.parametrize("text", ["own_rankings:last_first", "own_rankings.py:last_first"])
def test_a_callable_of_the_users(folder: Path, text: str) -> None:
    before = list(sys.path)
    policy = load_policy(text)
    assert ordered(policy, TIED) == ("c", "b", "a")
    assert sys.path == before


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("own_rankings:none", "cannot be loaded: AttributeError"),
        ("no_such_rankings:name", "cannot be loaded: ModuleNotFoundError"),
        ("none.py:name", "there is no file none.py"),
        ("own_rankings:__name__", "is no callable"),
        ("own_rankings:forgets", "must return the ids"),
        ("own_rankings:raises", "failed: IndexError"),
        ("own_rankings:leaves", "failed: SystemExit"),
        ("leaving.py:name", "cannot be loaded: SystemExit"),
        ("leaving:name", "cannot be loaded: SystemExit"),
    ],
)
def test_a_callable_that_is_none(folder: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        load_policy(text)
    assert caught.value.code == "BAD_RANKING"
    assert "\n" not in str(caught.value)


def test_a_file_with_a_dataclass_whose_hints_are_texts(folder: Path) -> None:
    lines = (
        "from __future__ import annotations",
        "from dataclasses import dataclass",
        "@dataclass",
        "class Rank:",
        "    name: str",
        "def order(tied):",
        "    return [Rank(one.id).name for one in reversed(tied)]",
    )
    (folder / "ranks.py").write_text("\n".join(lines))
    assert ordered(load_policy("ranks.py:order"), TIED) == ("c", "b", "a")
    assert "ranks" not in sys.modules


@pytest.mark.parametrize("name", ["own_rankings:knows_two", "own_rankings.py:knows_two"])
def test_one_that_fails_on_a_real_tie_is_told_and_costs_nothing(folder: Path, name: str) -> None:
    told: list[str] = []
    policy = load_policy(name, told.append)
    assert ordered(policy, TIED) == ("a", "b", "c")
    (warning,) = told
    assert "must return the ids of all it was given" in warning
    assert warning.endswith("The tie is ordered as by fastest.")
    assert ordered(load_policy(name), TIED) == ("a", "b", "c")
