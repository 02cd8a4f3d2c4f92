"""At a closed sandbox the baseline's second run, replays and forced failure are made side by side."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from projects import make_project

from codeflash_parallel import Evaluator, RaceMode, Replacement, RunResult, Settings, Submission
from codeflash_parallel.config.environment import HASH_SEEDS
from codeflash_parallel.result.candidate_model import CandidateId
from codeflash_parallel.result.isolation_policy import IsolationLevel
from codeflash_parallel.result.outcome_codes import CandidateStatus
from codeflash_parallel.sandbox.level_probe import LevelProber
from codeflash_parallel.sandbox.runner_command import install_runner

pytestmark = [pytest.mark.engine, pytest.mark.own_baseline, pytest.mark.anyio]

#: A test that fails under one of the hash seeds, and another one that calls the target.
TESTS = """
    import os
    import shop.sums

    def test_at_times():
        shop.sums.total((9, 9))
        assert os.environ["PYTHONHASHSEED"] != "{seed}"

    def test_total():
        {other}
"""
SAYS = "assert shop.sums.total([1, 2]) == 5"
SILENT = "try: shop.sums.total([1, 2])\n        except Exception: pass"
#: Wrong for what only the test that fails at times calls it with.
PARTLY = "def total(values):\n    return 7 if type(values) is tuple else sum(v * v for v in values)\n"
WRONG = "def total(values):\n    return 7\n"


async def checked(tmp_path: Path, tests: str) -> RunResult:
    level, cache = IsolationLevel.SANDBOX, tmp_path / "cache"
    prober = LevelProber(interpreter=Path(sys.executable), runner_dir=install_runner(cache), cache=cache)
    if why_not := prober.probe(level).why_not:
        pytest.skip(f"{level}: {why_not}")
    settings = Settings(functions=("shop/sums.py::total",), cache_dir=str(cache), isolation=level.value)
    project = make_project(tmp_path / "project", tests__test_sums_py=tests)
    candidates = {"partly": PARTLY, "wrong": WRONG}
    async with Evaluator(project, settings, once=True) as evaluator:
        return await evaluator.evaluate(
            [Submission(id=CandidateId(name), content=Replacement(code=c)) for name, c in candidates.items()],
            race=RaceMode.CHECK,
        )


@pytest.mark.parametrize("seed", HASH_SEEDS)
async def test_calls_of_a_test_that_fails_at_times_count_for_nothing(tmp_path: Path, seed: int) -> None:
    result = await checked(tmp_path, TESTS.format(seed=seed, other=SAYS))
    assert result.quarantined == ("tests/test_sums.py::test_at_times",)
    by_id = {candidate.id: candidate.status for candidate in result.candidates}
    assert by_id == {"partly": CandidateStatus.UNDECIDED, "wrong": CandidateStatus.REJECTED}
    assert not any("No test notices" in warning for warning in result.warnings)


@pytest.mark.parametrize("seed", HASH_SEEDS)
async def test_a_test_that_fails_at_times_does_not_notice_that_targets_raise(
    tmp_path: Path, seed: int
) -> None:
    result = await checked(tmp_path, TESTS.format(seed=seed, other=SILENT))
    assert result.quarantined == ("tests/test_sums.py::test_at_times",)
    assert any("No test notices when shop/sums.py::total raises" in w for w in result.warnings)
