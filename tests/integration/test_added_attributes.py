"""Candidates whose objects keep more than the baseline's: captured objects get that from the constructor."""

from __future__ import annotations

from pathlib import Path

import pytest
from projects import make_project

from codeflash_parallel import Evaluator, RaceMode, Settings, Submission
from codeflash_parallel.result.candidate_model import CandidateId, FileText, FileTexts
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code

pytestmark = [pytest.mark.anyio, pytest.mark.engine]

READER = """
import re

class Reader:
    def __init__(self, mark, limit=1000):
        self.mark = mark
        self.limit = limit
        self.buffer = ""

    def feed(self, text):
        self.buffer += text
        found = re.split(re.escape(self.mark), self.buffer)
        self.buffer = found.pop()
        if len(self.buffer) > self.limit:
            raise ValueError(self.limit)
        return found
"""
TESTS = """
import pytest
from shop.reader import Reader

@pytest.mark.parametrize("mark", [";", "--", "::"])
def test_feed(mark):
    reader = Reader(mark)
    got = [one for text in ("a" + mark, "bc" + mark + "d", "e", mark) for one in reader.feed(text)]
    assert got == ["a", "bc", "de"]
    with pytest.raises(ValueError):
        reader.feed("x" * 1001)
"""
SPLIT = "found = re.split(re.escape(self.mark), self.buffer)"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def kept(line: str, use: str) -> Submission:
    """A candidate that sets one attribute more, and uses it."""
    text = READER.replace('self.buffer = ""', f'self.buffer = ""\n        {line}', 1).replace(SPLIT, use)
    name = CandidateId(line.partition(" ")[0].removeprefix("self._"))
    return Submission(id=name, content=FileTexts(files=(FileText(path="shop/reader.py", text=text),)))


@pytest.mark.witness
async def test_what_constructors_of_a_candidate_set_is_no_difference(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", shop__reader_py=READER, tests__test_reader_py=TESTS)
    settings = Settings(
        functions=("shop/reader.py::Reader.feed",),
        cache_dir=str(tmp_path / "cache"),
        parallel_candidates=2,
        time_budget=5.0,
    )
    submissions = [
        kept("self._pattern = re.compile(re.escape(mark))", "found = self._pattern.split(self.buffer)"),
        kept("self._fed = 0", "self._fed += 1\n        found = self.buffer.split(self.mark)"),
        kept(
            "self._first = mark[0]", "found = self.buffer.replace(self.mark, self._first).split(self._first)"
        ),
    ]

    async with Evaluator(project, settings) as evaluator:
        result = await evaluator.evaluate(submissions, race=RaceMode.RACE)

    pattern, fed, first = result.candidates
    said = [one.reason for one in result.candidates]
    assert first.code is Code.VALUE_DIFFERS, said
    assert CandidateStatus.REJECTED not in {pattern.status, fed.status}, said
    assert pattern.values.compared == fed.values.compared > 0
    assert pattern.values.differing == fed.values.differing == 0
    assert not pattern.hints, pattern.hints
    assert result.race["rounds"] > 0, said
