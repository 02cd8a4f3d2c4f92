"""What a race compares beside the clocks, and of which code, on real runs."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from projects import make_project

from codeflash_parallel import EnvironmentFault, Evaluator, Replacement, Settings, Submission
from codeflash_parallel.config.settings import ComparisonMode
from codeflash_parallel.result.candidate_model import CandidateId
from codeflash_parallel.result.outcome_codes import CandidateStatus
from codeflash_parallel.result.result_model import CandidateResult, RunResult

pytestmark = pytest.mark.engine

SLOW = """def total(values):
    result = 0
    for value in values:
        result = result + value + 0 + 0 - 0 + 0 - 0 + 0
    return result
"""
#: Another type, which the test does not mind.
FLOATS = "def total(values):\n    result = 0.0\n    for value in values:\n        result += value\n    return result\n"
TESTS = """
from shop.sums import total


def test_total():
    assert total(list(range(4000))) == 7998000
"""


def raced(tmp_path: Path, code: str, compare: ComparisonMode) -> CandidateResult:
    project = make_project(tmp_path / "project", shop__sums_py=SLOW, tests__test_sums_py=TESTS)
    settings = Settings(
        functions=("shop/sums.py::total",),
        cache_dir=str(tmp_path / "cache"),
        time_budget=300.0,
        compare=compare,
    )

    async def main() -> CandidateResult:
        async with Evaluator(project, settings) as evaluator:
            submission = Submission(id=CandidateId("c"), content=Replacement(code=code))
            return (await evaluator.evaluate([submission])).candidates[0]

    return anyio.run(main)


@pytest.mark.witness
def test_values_that_nobody_compares_do_not_count_in_the_race_either(tmp_path: Path) -> None:
    found = raced(tmp_path, FLOATS, ComparisonMode.PASS_FAIL)

    assert found.status is CandidateStatus.WON, found.reason


FAST = "def total(values):\n    return sum(values)\n"
OTHER_CODE = "def total(values):\n    return sum(values)\nprint(total([1, 2]))\n"
TARGET = "from shop.sums import total\nprint(total([1, 2]))\n"
CAREFUL = """
try:
    from shop.sums import total
except Exception:
    total = sum
print(total([1, 2]))
"""


@pytest.mark.witness
@pytest.mark.parametrize(
    "source", [pytest.param(TARGET, marks=pytest.mark.campaign), CAREFUL], ids=["imports", "catches"]
)
def test_a_command_that_runs_the_targets_is_fit(tmp_path: Path, source: str) -> None:
    chosen = begun(tmp_path, source)

    assert chosen.race["workload"] == "command"


@pytest.mark.witness
def test_a_command_that_runs_other_code_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault) as caught:
        begun(tmp_path, OTHER_CODE)

    assert caught.value.code == "BENCHMARK_UNFIT"
    assert "python speed.py does not run the code that is to be timed" in str(caught.value)
    assert "shop/sums.py" in str(caught.value)


def begun(tmp_path: Path, source: str) -> RunResult:
    project = make_project(
        tmp_path / "project", shop__sums_py=SLOW, tests__test_sums_py=TESTS, speed_py=source
    )
    settings = Settings(
        functions=("shop/sums.py::total",),
        cache_dir=str(tmp_path / "cache"),
        benchmark_command="python speed.py",
        time_budget=1.0,
    )

    async def main() -> RunResult:
        async with Evaluator(project, settings) as evaluator:
            return await evaluator.evaluate([Submission(id=CandidateId("c"), content=Replacement(code=FAST))])

    return anyio.run(main)
