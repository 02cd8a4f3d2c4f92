"""Each tree has its own paths: who is given some, or gives some, does as the baseline does in its tree."""

from __future__ import annotations

from pathlib import Path

import pytest
from selftest.entries import Entry, bases, corpus
from selftest.projects import write_repository

from codeflash_parallel import Evaluator, FileText, FileTexts, RaceMode, Settings, Submission
from codeflash_parallel.result.candidate_model import CandidateId
from codeflash_parallel.result.outcome_codes import Code
from codeflash_parallel.result.result_model import RunResult

pytestmark = [pytest.mark.anyio, pytest.mark.engine]

BASE = bases()["paths"]
ENTRIES = [entry for entry in corpus() if entry.base == "paths"]


def submitted(entry: Entry) -> Submission:
    """Return an entry: what it defines stands behind the module's text, and counts."""
    text = f"{BASE.files[BASE.module]}\n\n{entry.code}"
    content = FileTexts(files=(FileText(path=BASE.module, text=text),))
    return Submission(id=CandidateId(entry.name), content=content)


async def judged(place: Path) -> RunResult:
    targets = tuple(f"{BASE.module}::{target}" for target in BASE.targets)
    settings = Settings(functions=targets, cache_dir=str(place / "cache"), parallel_candidates=1)
    async with Evaluator(place / "paths", settings) as evaluator:
        return await evaluator.evaluate([submitted(entry) for entry in ENTRIES], race=RaceMode.CHECK)


@pytest.mark.witness
async def test_paths_of_the_tree_are_those_of_the_candidates_tree(tmp_path):
    write_repository(tmp_path / "paths", BASE)
    honest = {entry.name: not entry.is_attack for entry in ENTRIES}
    assert set(honest.values()) == {True, False}
    # The second run finds what the first one has learnt: in slots that are gone.
    for result in (await judged(tmp_path), await judged(tmp_path)):
        became = {one.id: (one.code, one.reason) for one in result.candidates}
        for name, is_honest in honest.items():
            assert became[name][0] is (Code.NOT_RACED if is_honest else Code.VALUE_DIFFERS), became[name]
        assert all(one.values.compared >= 5 for one in result.candidates), result.candidates
