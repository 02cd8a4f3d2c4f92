"""Candidates that change one of several targets: the tests that execute it come first, and all count."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from projects import make_project

from codeflash_parallel import Evaluator, RaceMode, Replacement, RunResult, Settings, Submission
from codeflash_parallel.engine import narrowing
from codeflash_parallel.model.candidate import CandidateId
from codeflash_parallel.model.outcome import Code

pytestmark = pytest.mark.engine

MANY = """
def low(x):
    return x + 1

def high(x):
    return low(x) * 2

def other(x):
    return x - 1
"""
NAMES = ("low", "high", "other")
TESTS = """
    import subprocess, sys
    from functools import lru_cache

    import pytest
    from shop.many import high, low, other

    def test_low():
        assert low(1) == 2

    def test_nested():
        assert high(7) == 16

    def test_process():
        code = "from shop.many import low; assert low(5) == 6"
        assert subprocess.run([sys.executable, "-c", code]).returncode == 0

    def test_other():
        assert other(1) == 0
"""


@pytest.fixture(autouse=True)
def trials_pay_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try tests out with the first candidate."""
    monkeypatch.setattr(narrowing, "pays", lambda _baseline, _tried, others, many: many > 0 and others)


def low(text: str) -> str:
    return f"def low(x):\n    return {text}\n"


async def judged(tmp_path: Path, tests: str, texts: Sequence[str], **fields: bool) -> RunResult:
    """Judge one candidate after the other; each is the new text of a function."""
    project = tmp_path / "project"
    if not project.exists():
        make_project(project, shop__many_py=MANY, tests__test_sums_py=tests)
    settings = Settings(
        functions=tuple(f"shop/many.py::{name}" for name in NAMES),
        cache_dir=str(tmp_path / "cache"),
        parallel_candidates=1,
        **fields,
    )
    submissions = [
        Submission(
            id=CandidateId(f"c{number}"),
            content=Replacement(code=text, function=f"shop/many.py::{text[4 : text.index('(')]}"),
        )
        for number, text in enumerate(texts)
    ]
    async with Evaluator(project, settings) as evaluator:
        return await evaluator.evaluate(submissions, race=RaceMode.CHECK)


def seen(result: RunResult) -> list[tuple[Code, tuple[str, ...]]]:
    return [
        (one.code, tuple(test.rpartition("::")[2] for test in one.tests.failed_ids))
        for one in result.candidates
    ]


def answers(tmp_path: Path) -> dict[tuple[int, ...], str]:
    (path,) = (tmp_path / "cache").rglob("narrowing.json")
    return {tuple(numbers): state for numbers, state in json.loads(path.read_text())}


PASSED = (Code.NOT_RACED, ())


@pytest.mark.witness
@pytest.mark.anyio
async def test_tests_that_execute_what_is_changed_come_first(tmp_path: Path) -> None:
    wrong_when_nested = low("x + 1 if x != 7 else 0")
    wrong_elsewhere = low("x + 1 if x != 5 else 0")
    right = [low("1 + x"), low("x - -1"), low("x + 2 - 1"), low("2 + x - 1")]
    texts = [*right[:3], wrong_when_nested, wrong_elsewhere, right[3], "def other(x):\n    return x - 2\n"]
    result = await judged(tmp_path, TESTS, texts)
    wrong = [(Code.TESTS_FAILED, ("test_nested",)), (Code.TESTS_FAILED, ("test_process",))]
    assert seen(result) == [*[PASSED] * 3, *wrong, PASSED, (Code.TESTS_FAILED, ("test_other",))]
    assert [one.tests.passed for one in result.candidates] == [4, 4, 4, 1, 2, 4, 1]
    assert (result.warnings, result.tests_selected) == ((), 4)
    assert answers(tmp_path) == {(0,): "tried", (2,): "tried"}
    again = await judged(tmp_path, TESTS, texts[-4:])
    assert seen(again) == seen(result)[-4:]
    everything = await judged(tmp_path, TESTS, texts[-4:], no_select=True)
    assert seen(everything) == seen(result)[-4:]


@pytest.mark.witness
@pytest.mark.anyio
async def test_what_fixtures_of_many_tests_execute_concerns_all_of_them(tmp_path: Path) -> None:
    fixture = """
    @pytest.fixture(scope="session", autouse=True)
    def shared():
        return low(30)

    def test_shared(shared):
        assert other(shared) == 30
    """
    wrong = low("x + 1 if x != 30 else 0")
    result = await judged(tmp_path, TESTS + fixture, [low("1 + x"), low("x - -1"), wrong])
    assert seen(result) == [*[PASSED] * 2, (Code.TESTS_FAILED, ("test_shared",))]


@pytest.mark.witness
@pytest.mark.anyio
async def test_a_test_that_needs_others_before_it_gets_them(tmp_path: Path) -> None:
    needy = """
    def test_prepares():
        pytest.ready = other(1)

    def test_needs():
        assert low(pytest.ready) == 1
    """
    wrong = low("x + 1 if x else 0")
    texts = [low("1 + x"), low("x - -1"), wrong]
    result = await judged(tmp_path, TESTS + needy, texts)
    assert seen(result) == [PASSED, PASSED, (Code.TESTS_FAILED, ("test_needs",))]
    (warning,) = result.warnings
    assert "test_needs needs tests" in warning
    assert answers(tmp_path) == {(0,): "whole"}


@pytest.mark.witness
@pytest.mark.anyio
async def test_who_lives_on_what_another_test_has_kept_counts(tmp_path: Path) -> None:
    keeping = """
    @lru_cache
    def kept():
        return low(40)

    def test_keeps():
        kept()

    def test_lives_on_it():
        assert other(kept()) == 40
    """
    wrong = low("x + 1 if x != 40 else 0")
    texts = [low("1 + x"), low("x - -1"), wrong]
    result = await judged(tmp_path, TESTS + keeping, texts)
    assert seen(result) == [*[PASSED] * 2, (Code.TESTS_FAILED, ("test_lives_on_it",))]
    assert result.warnings == ()
    assert answers(tmp_path) == {(0,): "tried"}
