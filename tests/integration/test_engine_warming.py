"""What goes on beside the preflight: servers start, candidates are drafted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from harness import processes_of
from projects import make_project

from codeflash_parallel import Evaluator, RaceMode, Replacement, RunResult, Settings, Submission
from codeflash_parallel.baseline import baseline_replay, preflight
from codeflash_parallel.check.session.runner_session import RunnerSession, run_session
from codeflash_parallel.config.settings import ComparisonMode
from codeflash_parallel.result.candidate_model import CandidateId
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code

pytestmark = [pytest.mark.engine, pytest.mark.own_baseline]

#: With the target's docstring kept, so that only its body differs.
DOC = '    """Return the sum of the squares."""\n'
RIGHT = f"def total(values):\n{DOC}    return sum(value * value for value in values)\n"
WRONG = f"def total(values):\n{DOC}    return sum(values)\n"


def candidate(name: str, code: str) -> Submission:
    return Submission(id=CandidateId(name), content=Replacement(code=code))


def captures(tmp_path: Path) -> list[Path]:
    return list(tmp_path.rglob("baselines/*/inputs"))


async def judged(project: Path, tmp_path: Path, **fields: object) -> RunResult:
    plain: dict[str, Any] = {"functions": ("shop/sums.py::total",), "cache_dir": str(tmp_path / "cache")}
    own = Settings(**{**plain, "parallel_candidates": 1, **fields})
    async with Evaluator(project, own) as evaluator:
        return await evaluator.evaluate(
            [candidate("right", RIGHT), candidate("wrong", WRONG)], race=RaceMode.CHECK
        )


def verdicts(result: RunResult) -> list[tuple[CandidateStatus, Code]]:
    return [(c.status, c.code) for c in result.candidates]


#: What is run side by side: two replays, and the tests with targets that raise.
BESIDE = ["first-failure", "replay", "replay"]


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the preflight's own processes as they come: when tests were told to stop, or the mode."""
    seen: list[str] = []

    async def run(runner: Any, workspace: Any, spec: Any, *more: Any, **named: Any) -> RunnerSession:
        # What is done for fresh inputs is no matter of servers.
        if spec["mode"] != "derive" and not spec.get("derived"):
            seen.append(spec.get("stop") or spec["mode"])
        return await run_session(runner, workspace, spec, *more, **named)

    monkeypatch.setattr(preflight, "run_session", run)
    monkeypatch.setattr(baseline_replay, "run_session", run)
    return seen


@pytest.mark.witness
@pytest.mark.anyio
async def test_the_failing_run_is_made_in_a_new_process(tmp_path: Path, runs: list[str]) -> None:
    project = make_project(tmp_path / "project")
    warm = await judged(project, tmp_path)
    assert (runs[:2], sorted(runs[2:])) == (["never", "never"], BESIDE)
    new_process = await judged(project, tmp_path, new_process=True, cache_dir=str(tmp_path / "other"))
    assert (runs[5:7], sorted(runs[7:])) == (["never", "never"], BESIDE)
    assert verdicts(warm) == verdicts(new_process)
    assert {c.served for c in warm.candidates} == {"collected"}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("new_process", "compare"),
    [
        (False, ComparisonMode.VALUES),
        pytest.param(False, ComparisonMode.PASS_FAIL, marks=pytest.mark.witness),
        pytest.param(True, ComparisonMode.VALUES, marks=pytest.mark.campaign),
    ],
)
@pytest.mark.witness
async def test_a_failure_that_nobody_sees_is_told_as_without_servers(
    tmp_path: Path, new_process: bool, compare: ComparisonMode
) -> None:
    swallows = """
        from shop.sums import total

        def test_nothing():
            try:
                total([1, 2])
            except Exception:
                pass
    """
    project = make_project(tmp_path / "project", tests__test_sums_py=swallows)
    result = await judged(project, tmp_path, new_process=new_process, compare=compare)
    assert any("No test notices" in warning for warning in result.warnings)
    assert verdicts(result)[0] == (CandidateStatus.UNDECIDED, Code.NOT_RACED)


@pytest.mark.witness
@pytest.mark.anyio
async def test_nobody_captures_where_only_outcomes_are_compared(tmp_path: Path, runs: list[str]) -> None:
    project = make_project(tmp_path / "project")
    shallow = await judged(project, tmp_path, compare=ComparisonMode.PASS_FAIL)
    assert runs == ["never", "never", "first-failure"]
    assert not captures(tmp_path)
    deep = await judged(project, tmp_path)
    assert (runs[3:5], sorted(runs[5:])) == (["never", "never"], BESIDE)
    assert captures(tmp_path)
    again = await judged(project, tmp_path, compare=ComparisonMode.PASS_FAIL)
    assert len(runs) == 8  # whoever knows more knows enough
    assert verdicts(shallow) == verdicts(deep) == verdicts(again)


@pytest.mark.witness
@pytest.mark.anyio
async def test_servers_that_were_started_for_other_files_are_started_again(tmp_path: Path) -> None:
    state = "READY = []\n"
    first = "from shop import state\n\ndef test_first():\n    state.READY.append(1)\n"
    then = """
        from shop import state
        from shop.sums import total

        def test_then():
            assert state.READY
            assert total([1, 2]) == 5
    """
    project = make_project(
        tmp_path / "project", shop__state_py=state, tests__test_a_py=first, tests__test_sums_py=then
    )
    result = await judged(project, tmp_path)
    assert verdicts(result) == [
        (CandidateStatus.UNDECIDED, Code.NOT_RACED),
        (CandidateStatus.REJECTED, Code.TESTS_FAILED),
    ]
    assert any("all tests are run" in warning for warning in result.warnings)
    assert {c.served for c in result.candidates} == {"collected"}
    assert processes_of(tmp_path / "cache") == []
