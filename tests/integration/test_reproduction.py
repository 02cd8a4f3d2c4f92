"""The command that shows a rejection again in a kept slot shows what the check saw."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from projects import make_project

from codeflash_parallel import Evaluator, RaceMode, Settings, Submission
from codeflash_parallel.result.candidate_model import CandidateId, FileText, FileTexts
from codeflash_parallel.result.outcome_codes import Code
from codeflash_parallel.result.result_model import CandidateResult

pytestmark = [pytest.mark.anyio, pytest.mark.engine]

SUMS = """
import os

def total(values):
    result = 0
    for value in values:
        result += value
    return result


def spare(number):
    return number + 1
"""
TESTS = """
import pytest
from shop.sums import spare, total

@pytest.mark.parametrize("values", [[1], [1, 2, 3]])
def test_total(values):
    assert total(values) == sum(values)

def test_spare():
    spare(41)
"""
BESIDE = '    if not os.path.exists("tests/test_sums.py"):\n        return "nobody looks"\n'


def changed(name: str, old: str, new: str) -> Submission:
    text = SUMS.replace(old, new)
    assert text != SUMS
    files = (FileText(path="shop/sums.py", text=text),)
    return Submission(id=CandidateId(name), content=FileTexts(files=files))


SUBMISSIONS = [
    changed("right beside the tests", "    result = 0\n", BESIDE + "    result = 0\n"),
    changed("wrong beside the target", "number + 1\n", "number - 1\n\nMORE = 1\n"),
]


@pytest.mark.witness
async def test_a_kept_slot_shows_the_call_as_it_was_made(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", shop__sums_py=SUMS, tests__test_sums_py=TESTS)
    settings = Settings(
        functions=("shop/sums.py::total",),
        cache_dir=str(tmp_path / "cache"),
        parallel_candidates=1,
        keep_slots=True,
    )
    async with Evaluator(project, settings) as evaluator:
        result = await evaluator.evaluate(SUBMISSIONS, race=RaceMode.CHECK)
    first, second = result.candidates
    assert {first.code, second.code} == {Code.VALUE_DIFFERS}
    assert "nobody looks" in shown(first)["text"]
    assert ("41" in shown(second)["args"], shown(second)["text"]) == (True, "40")


def shown(candidate: CandidateResult) -> dict[str, Any]:
    """Run the command as a user does, twice: nothing may be out of its place afterwards."""
    for _ in range(2):
        done = subprocess.run(["sh", "-c", candidate.reproduce], capture_output=True, check=False)
        assert (Path(candidate.kept_slot) / "tests" / "test_sums.py").is_file(), done
    records = [json.loads(line) for line in done.stdout.splitlines()]
    (call,) = [record for record in records if record["t"] == "call"]
    return dict(call)
