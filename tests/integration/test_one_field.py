"""How a race is held: all candidates at once, within one budget."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from projects import make_project

from codeflash_parallel import Evaluator, Replacement, Settings, Submission
from codeflash_parallel.result.candidate_model import CandidateId
from codeflash_parallel.result.events import Event, RaceProgress
from codeflash_parallel.result.outcome_codes import Code, Verdict

pytestmark = [pytest.mark.engine, pytest.mark.anyio]

TARGET = "shop/sums.py::total"


def candidates(*codes: str) -> list[Submission]:
    return [
        Submission(
            id=CandidateId(f"c{number}"), content=Replacement(code=f"def total(values):\n    {code}\n")
        )
        for number, code in enumerate(codes)
    ]


def settings(folder: Path, **fields: object) -> Settings:
    plain = {"functions": (TARGET,), "cache_dir": str(folder / "cache"), "parallel_candidates": 1}
    return Settings(**{**plain, **fields})  # type: ignore[arg-type]


@pytest.mark.witness
async def test_the_number_of_slots_does_not_decide_who_races_with_whom(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    told: list[RaceProgress] = []
    squares = (
        "return sum(value * value for value in values)",
        "return sum([value * value for value in values])",
        "return sum(map(lambda value: value * value, values))",
    )
    with anyio.CancelScope() as scope:

        def observe(event: Event) -> None:
            if isinstance(event, RaceProgress):
                told.append(event)
                scope.cancel()

        async with Evaluator(project, settings(tmp_path)) as evaluator:
            await evaluator.evaluate(candidates(*squares), observers=[observe])
    assert [(one.stage, one.racing) for one in told] == [("race", 3)]
    assert told[0].leader in {"c0", "c1", "c2"}
    assert told[0].speedup > 1


@pytest.mark.witness
async def test_a_budget_that_is_too_small_is_told_with_the_figure_that_would_do(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    body = "return sum(value * value for value in values)"
    async with Evaluator(project, settings(tmp_path, time_budget=0.2)) as evaluator:
        result = await evaluator.evaluate(candidates(body))
    (candidate,) = result.candidates
    assert (result.verdict, candidate.code) == (Verdict.BUDGET_TOO_SMALL, Code.BUDGET_TOO_SMALL)
    assert "the budget of 0.2 s is too small" in result.summary
    assert int(result.summary.rpartition("--time-budget ")[2].rstrip(".")) >= 1
