"""A memory limit that the baseline itself would not keep is a mistake in a setting, and no candidate's fault."""

from __future__ import annotations

from pathlib import Path

import pytest
from projects import FAST_TOTAL, make_project

from codeflash_parallel import (
    EnvironmentFault,
    Evaluator,
    RaceMode,
    Replacement,
    RunResult,
    Settings,
    Submission,
    UsageError,
)
from codeflash_parallel.config.settings import ComparisonMode
from codeflash_parallel.result.candidate_model import CandidateId
from codeflash_parallel.result.outcome_codes import CandidateStatus

pytestmark = [pytest.mark.engine, pytest.mark.anyio, pytest.mark.own_baseline]

#: Asks for more private memory than a check with the smallest limit may have, and touches none of it.
GREEDY = """
from shop.sums import total

def test_large_buffers():
    assert total([1]) == 1
    assert total([len(bytes(n)) for n in (1, 200_000_000)]) > 1
"""


async def check(project: Path, cache: Path, memory_limit: int) -> RunResult:
    settings = Settings(
        functions=("shop/sums.py::total",),
        cache_dir=str(cache),
        parallel_candidates=1,
        memory_limit=memory_limit,
        compare=ComparisonMode.PASS_FAIL,
    )
    fast = Submission(id=CandidateId("fast"), content=Replacement(code=FAST_TOTAL))
    async with Evaluator(project, settings) as evaluator:
        return await evaluator.evaluate([fast], race=RaceMode.CHECK)


@pytest.mark.parametrize("is_known", [False, True])
async def test_a_limit_below_what_the_baseline_takes_is_refused(tmp_path: Path, is_known: bool) -> None:
    project = make_project(tmp_path / "project")
    if is_known:
        result = await check(project, tmp_path / "cache", 0)
        assert result.candidates[0].status is CandidateStatus.UNDECIDED
    with pytest.raises(
        UsageError, match="memory_limit is 24 MiB, and the baseline's own tests take"
    ) as caught:
        await check(project, tmp_path / "cache", 24)
    assert caught.value.code == "BAD_SETTING"
    assert "give at least" in caught.value.hint


async def test_a_baseline_that_is_refused_memory_says_which_setting_gives_more(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", tests__test_greedy_py=GREEDY)
    with pytest.raises(EnvironmentFault, match="MemoryError") as caught:
        await check(project, tmp_path / "cache", 24)
    assert caught.value.code == "RED_BASELINE"
    assert caught.value.hint == "--memory-limit gives it more."
