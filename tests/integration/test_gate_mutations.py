"""Every check of the gate is needed: without it, an attack of the corpus comes through."""

from __future__ import annotations

from pathlib import Path

import pytest
from gate_mutations import MUTATIONS, take_away
from selftest import traces
from selftest.entries import Entry, bases, corpus
from selftest.projects import edits_of, marks, write_repository

from codeflash_parallel import Evaluator, FileText, FileTexts, RaceMode, Settings, Submission
from codeflash_parallel.result.candidate_model import CandidateId
from codeflash_parallel.result.outcome_codes import CandidateStatus
from codeflash_parallel.result.result_model import CandidateResult

pytestmark = [pytest.mark.anyio, pytest.mark.engine]

ENTRIES = {entry.name: entry for entry in corpus()}
BASE = bases()["plain"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a repository, which no test changes, and room for a cache."""
    folder = tmp_path_factory.mktemp("gate")
    write_repository(folder / "plain", BASE)
    return folder


async def judged(entry: Entry, place: Path, outside: Path) -> CandidateResult:
    """Let our gate judge one attack, in this process."""
    targets = tuple(f"{BASE.module}::{target}" for target in BASE.targets)
    settings = Settings(functions=targets, cache_dir=str(place / "cache"), parallel_candidates=1)
    with marks(entry, outside) as mark:
        files = [FileText(path=path, text=text) for path, text in edits_of(entry, BASE, mark).items()]
        submission = Submission(id=CandidateId(entry.name), content=FileTexts(files=tuple(files)))
        try:
            async with Evaluator(place / "plain", settings) as evaluator:
                result = await evaluator.evaluate([submission], race=RaceMode.CHECK)
        finally:
            traces.remove(mark)
    return result.candidates[0]


CASES = [
    pytest.param(mutation, id=mutation.check, marks=[] if mutation.gate else [pytest.mark.campaign])
    for mutation in MUTATIONS
]


@pytest.mark.attack
@pytest.mark.parametrize("mutation", CASES)
async def test_without_a_check_an_attack_comes_through(mutation, place, tmp_path, monkeypatch):
    entry = ENTRIES[mutation.attack]
    take_away(mutation, monkeypatch)
    found = await judged(entry, place, tmp_path / "outside")
    assert found.status is CandidateStatus.UNDECIDED, found.reason


@pytest.mark.campaign
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.check)
async def test_with_it_the_attack_is_rejected(mutation, place, tmp_path):
    entry = ENTRIES[mutation.attack]
    found = await judged(entry, place, tmp_path / "outside")
    assert found.status in {CandidateStatus.REJECTED, CandidateStatus.UNAPPLIABLE}, found.reason
