"""Two evaluators of one tree at the same time: one finds out the baseline, the other one waits and reads it."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from projects import FAST_TOTAL, make_project

from codeflash_parallel import Evaluator, RaceMode, Replacement, Settings, Submission
from codeflash_parallel.baseline.baseline_store import one_learner
from codeflash_parallel.result.candidate_model import CandidateId
from codeflash_parallel.result.result_model import RunResult

pytestmark = pytest.mark.anyio


async def test_one_at_a_time_and_again_when_he_is_gone(tmp_path: Path) -> None:
    folder, inside = tmp_path / "baselines/key", []

    async def learn(name: str) -> None:
        async with one_learner(folder):
            inside.append(name)
            await anyio.sleep(0.02)  # gives the other one a chance to be wrong
            assert inside == [name]
            inside.remove(name)

    async with anyio.create_task_group() as tasks:
        for name in "abc":
            tasks.start_soon(learn, name)
    with anyio.move_on_after(0.1) as scope:
        async with one_learner(folder), one_learner(folder):
            pytest.fail("two have it")
    assert scope.cancelled_caught
    async with one_learner(folder):
        pass


@pytest.mark.witness
@pytest.mark.engine
async def test_two_evaluators_share_what_one_has_found_out(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    settings = Settings(
        functions=("shop/sums.py::total",), cache_dir=str(tmp_path / "cache"), parallel_candidates=1
    )
    results: list[RunResult] = []

    async def evaluate(name: str) -> None:
        async with Evaluator(project, settings) as evaluator:
            candidate = Submission(
                id=CandidateId(name), content=Replacement(code=f"{FAST_TOTAL}    # {name}\n")
            )
            results.append(await evaluator.evaluate([candidate], race=RaceMode.CHECK))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(evaluate, "one")
        tasks.start_soon(evaluate, "two")
    assert [result.candidates[0].code for result in results] == ["NOT_RACED", "NOT_RACED"]
    made = list((tmp_path / "cache").glob("*/baselines/*/baseline.json"))
    assert len(made) == 1
    assert len(list(made[0].parent.glob("inputs*"))) == 1
