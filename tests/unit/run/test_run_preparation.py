"""Candidates of submissions, and a source whose first candidate was taken to find the targets."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from codeflash_parallel.result.candidate_model import (
    CandidateId,
    PatchText,
    Submission,
    Unappliable,
)
from codeflash_parallel.result.outcome_codes import Code
from codeflash_parallel.run import run_preparation
from codeflash_parallel.run.ledger import CandidateEntry, Ledger
from codeflash_parallel.run.run_preparation import CandidatePreparer, known, peek
from codeflash_parallel.run.run_state import StepCache


def entries(*names: str) -> list[CandidateEntry]:
    ledger = Ledger("run")
    return [ledger.add(Submission(id=CandidateId(name), content=PatchText(patch=name))) for name in names]


async def producing(*names: str) -> AsyncGenerator[CandidateEntry, None]:
    for entry in entries(*names):
        yield entry


@pytest.mark.anyio
async def test_a_draft_that_was_made_ahead_is_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    async def materialise(
        _mirror: object, _snapshot: object, submission: Submission, _targets: Sequence[object], **_: object
    ) -> Unappliable:
        made.append(submission.id)
        return Unappliable(code=Code.DOES_NOT_APPLY.value, reason="")

    monkeypatch.setattr(run_preparation, "materialise", materialise)
    both = entries("a", "b")
    nothing: Any = SimpleNamespace(mirror=SimpleNamespace(read=repr), interpreter=None)
    line = CandidatePreparer(nothing, nothing, (), StepCache(tmp_path))
    await line.prepare_all(both[:1])
    for entry in both:
        await line.candidate(entry)
    assert made == ["a", "b"]


@pytest.mark.anyio
@pytest.mark.parametrize("names", [(), ("a",), ("a", "b", "c")])
async def test_what_was_taken_from_a_source_is_put_back(names: tuple[str, ...]) -> None:
    first, source = await peek(producing(*names))
    assert [entry.id for entry in first] == list(names[:1])
    assert isinstance(source, AsyncGenerator)
    assert [entry.id async for entry in source] == list(names)


@pytest.mark.anyio
async def test_a_list_is_there_up_to_the_limit() -> None:
    there = entries("a", "b", "c")
    assert await peek(there) == (there, there)
    assert (known(there, 0), known(there, 2)) == (there, there[:2])
    assert known(producing("a"), 0) == ()
