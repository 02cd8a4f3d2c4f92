"""The whole main job on one tiny project: what every Python that we support must be able to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import assert_same, picture
from projects import FAST_TOTAL, SLOW_TOTAL, WRONG_TOTAL, make_project

from codeflash_parallel import Evaluator, RaceMode, Replacement, Settings, Submission
from codeflash_parallel.result.candidate_model import CandidateId
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Level, Verdict
from codeflash_parallel.result.result_model import RunResult

pytestmark = pytest.mark.engine

TARGET = "shop/sums.py::total"


def replacement(name: str, code: str) -> Submission:
    return Submission(id=CandidateId(name), content=Replacement(code=code))


def settings(cache: Path, **fields: object) -> Settings:
    plenty_s = 300.0  # for a busy machine; the race ends once it has decided
    return Settings(
        functions=(TARGET,), cache_dir=str(cache), parallel_candidates=2, time_budget=plenty_s, **fields
    )  # type: ignore[arg-type]


@pytest.mark.witness
@pytest.mark.anyio
async def test_a_winner_is_found_and_the_user_s_tree_is_untouched(shop: Path) -> None:
    project = shop / "project"
    before = picture(project)
    submissions = [
        replacement("fast", FAST_TOTAL),
        replacement("wrong", WRONG_TOTAL),
        replacement("broken", "def total(values:\n"),
        replacement("same", SLOW_TOTAL),
        replacement("fast-again", FAST_TOTAL.replace("value", "value")),
    ]
    async with Evaluator(project, settings(shop / "cache")) as evaluator:
        result = await evaluator.evaluate(submissions)
    assert_same(before, picture(project))
    assert (result.verdict, result.winner) == (Verdict.WINNER, "fast"), result.summary
    assert result.level is Level.DERIVED
    found = {c.id: (c.status, c.code) for c in result.candidates}
    assert found == {
        "fast": (CandidateStatus.WON, Code.OK),
        "wrong": (CandidateStatus.REJECTED, Code.TESTS_FAILED),
        "broken": (CandidateStatus.UNAPPLIABLE, Code.DOES_NOT_PARSE),
        "same": (CandidateStatus.DUPLICATE, Code.SAME_CODE),
        "fast-again": (CandidateStatus.DUPLICATE, Code.SAME_CODE),
    }
    won = result.candidates[0]
    assert won.speedup is not None
    assert won.speedup.stage == "confirmation"
    assert 1 < won.speedup.low <= won.speedup.estimate <= won.speedup.high
    assert won.tests.passed == won.tests.expected == 5
    assert result.winner_profile is not None
    assert result.baseline_profile is not None


@pytest.mark.anyio
async def test_values_reject_what_tests_do_not_see(tmp_path: Path) -> None:
    blind = "from shop.sums import total\n\ndef test_total():\n    total([3, 1, 2])\n"
    project = make_project(tmp_path / "project", tests__test_sums_py=blind)
    result = await check(project, tmp_path, [replacement("wrong", WRONG_TOTAL)])
    assert result.verdict is Verdict.NONE_CORRECT
    (wrong,) = result.candidates
    assert (wrong.status, wrong.code) == (CandidateStatus.REJECTED, Code.VALUE_DIFFERS)
    assert wrong.difference is not None
    assert (wrong.difference.expected, wrong.difference.got) == ("14", "6")


@pytest.mark.witness
@pytest.mark.anyio
async def test_more_passing_candidates_than_slots(shop: Path) -> None:
    submissions = [replacement(f"c{n}", FAST_TOTAL + f"\n\nOF = {n}\n") for n in range(6)]
    result = await check(shop / "project", shop, submissions)
    assert [(c.status, c.code) for c in result.candidates] == [
        (CandidateStatus.UNDECIDED, Code.NOT_RACED)
    ] * 6


async def check(project: Path, tmp_path: Path, submissions: list[Submission]) -> RunResult:
    async with Evaluator(project, settings(tmp_path / "cache")) as evaluator:
        return await evaluator.evaluate(submissions, race=RaceMode.CHECK)
