"""At a closed sandbox the same servers serve all slots, and each check is in its own all the same."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from projects import make_project

from codeflash_parallel import Evaluator, RaceMode, Replacement, RunResult, Settings, Submission
from codeflash_parallel.result.candidate_model import CandidateId
from codeflash_parallel.result.isolation_policy import IsolationLevel
from codeflash_parallel.result.outcome_codes import CandidateStatus
from codeflash_parallel.sandbox.level_probe import LevelProber
from codeflash_parallel.sandbox.runner_command import install_runner
from codeflash_parallel.warm import slot_servers

pytestmark = [pytest.mark.engine, pytest.mark.own_baseline, pytest.mark.anyio]

DOC = '    """Return the sum of the squares."""\n'
#: Binds a port, writes into the tree and the home folder, and looks whether somebody else has done so.
TESTS = """
    import os, pathlib, socket, time
    import shop.sums

    HERE = pathlib.Path(__file__).resolve().parent

    def test_total():
        assert shop.sums.total([1, 2]) == 5

    def test_alone():
        places = [HERE / "made_here", pathlib.Path.home() / "made_here", pathlib.Path("/tmp/made_here")]
        assert not any(place.exists() for place in places)
        with socket.create_server(("127.0.0.1", 8765)):
            for place in places:
                place.write_text(shop.sums.__file__)
            shop.sums.total([3])
            time.sleep(0.1)
"""


def bodies(*lines: str) -> list[Submission]:
    """Return candidates: the right one, written otherwise each time, and those that are wrong."""
    right = [
        f"def total(values):\n{DOC}    return sum(v * v for v in values) + {n} - {n}\n" for n in range(2)
    ]
    wrong = [f"def total(values):\n{DOC}    {line}\n" for line in lines]
    named = [*(("right", code) for code in right), *(("wrong", code) for code in wrong)]
    return [
        Submission(id=CandidateId(f"{name}{number}"), content=Replacement(code=code))
        for number, (name, code) in enumerate(named)
    ]


async def checked(tmp_path: Path, **fields: object) -> RunResult:
    level = IsolationLevel.SANDBOX
    cache = tmp_path / "cache"
    prober = LevelProber(interpreter=Path(sys.executable), runner_dir=install_runner(cache), cache=cache)
    if why_not := prober.probe(level).why_not:
        pytest.skip(f"{level}: {why_not}")
    settings = Settings(
        functions=("shop/sums.py::total",),
        cache_dir=str(cache),
        parallel_candidates=2,
        isolation=level.value,
        **fields,  # type: ignore[arg-type]
    )
    project = make_project(tmp_path / "project", tests__test_sums_py=TESTS)
    async with Evaluator(project, settings) as evaluator:
        submissions = bodies("return 7")
        return await evaluator.evaluate(submissions, race=RaceMode.CHECK)


def must_be_right(result: RunResult) -> None:
    for candidate in result.candidates:
        right = candidate.id.startswith("right")
        expected = CandidateStatus.UNDECIDED if right else CandidateStatus.REJECTED
        assert candidate.status is expected, candidate.reason


def served(result: RunResult) -> set[str]:
    return {candidate.served for candidate in result.candidates}


async def test_one_set_of_servers_serves_two_slots(tmp_path: Path) -> None:
    result = await checked(tmp_path)
    must_be_right(result)
    assert (served(result), result.warm["servers"]) == ({"collected"}, 4)


@pytest.mark.witness
async def test_servers_that_are_started_again_see_the_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot_servers, "LONGEST_S", 0.0)  # each check replaces them, while another one runs
    result = await checked(tmp_path)
    must_be_right(result)
    assert result.warm["restarts"] > 0


@pytest.mark.witness
async def test_slots_that_can_reach_something_have_servers_of_their_own(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    result = await checked(tmp_path, allow_write=(str(shared),))
    must_be_right(result)
    assert (served(result), result.warm["servers"]) == ({"collected"}, 8)
