"""Runs on disk: found by name, their edits and their results."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from codeflash_parallel.result.candidate_model import (
    Candidate,
    CandidateId,
    CandidateOrigin,
    Edit,
)
from codeflash_parallel.result.errors import CodeflashParallelError, UsageError
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Verdict
from codeflash_parallel.result.result_model import CandidateResult, RunResult
from codeflash_parallel.run.run_folder import (
    find_run,
    list_runs,
    load_document,
    load_edits,
    save_diff,
    save_run,
    stored_result,
)

ROOT = Path("/repository")


def candidate(name: str) -> Candidate:
    edit = Edit(path="m.py", old_digest=None, new=b"\xff x = 1\n")
    return Candidate(id=CandidateId(name), origin=CandidateOrigin.PATCH, edits=(edit,), diff=f"+{name}\n")


def save(cache: Path, run_id: str, second: int = 0) -> Path:
    run_dir = cache / "key" / "runs" / run_id
    one = candidate("a")
    result = CandidateResult(
        id=one.id,
        origin=one.origin,
        status=CandidateStatus.WON,
        code=Code.OK,
        reason="Fast.",
        diff_path=str(save_diff(run_dir, one)),
        diff=one.diff,
    )
    run = RunResult(
        run_id=run_id,
        complete=True,
        verdict=Verdict.WINNER,
        candidates=(result,),
        repository=str(ROOT),
        run_dir=str(run_dir),
    )
    save_run(run_dir, run, [one])
    os.utime(run_dir, (second, second))
    return run_dir


def test_a_run_is_found_by_its_id_the_beginning_of_it_or_as_the_last_one(tmp_path: Path) -> None:
    home = tmp_path / "key"
    first, second = save(tmp_path, "2026-a", 1), save(tmp_path, "2026-b", 2)
    begun = home / "runs" / "2026-c"
    begun.mkdir()
    assert find_run(home, "last", with_result=False) == second
    (begun / "run.json").write_text("{}")
    assert find_run(home, "2026-a", with_result=False) == first
    assert find_run(home, "last", with_result=False) == begun
    assert find_run(home, "last", with_result=True) == second
    assert [document["run_id"] for document in list_runs(home)] == ["2026-b", "2026-a"]
    assert list_runs(tmp_path / "elsewhere") == []
    for name, code in (("2026", "AMBIGUOUS_RUN"), ("2027", "NO_SUCH_RUN"), ("", "NO_SUCH_RUN")):
        with pytest.raises(UsageError) as caught:
            find_run(home, name, with_result=False)
        assert caught.value.code == code


def test_edits_and_result_come_back_as_they_were(tmp_path: Path) -> None:
    run_dir = save(tmp_path, "r")
    assert load_edits(run_dir, "a") == candidate("a").edits
    with pytest.raises(UsageError, match="It has: a"):
        load_edits(run_dir, "b")
    (found,) = stored_result(load_document(run_dir)).candidates
    assert (found.diff, found.status) == ("+a\n", CandidateStatus.WON)
    (run_dir / "result.json").write_text("{")
    with pytest.raises(CodeflashParallelError, match="cannot be read"):
        load_document(run_dir)
    assert list_runs(tmp_path / "key") == []


@pytest.mark.parametrize("name", ["a/b", "..", "a b", "ü", "a" * 300])
def test_a_diff_lies_in_the_folder_of_the_run_whatever_the_candidate_is_called(
    tmp_path: Path, name: str
) -> None:
    path = save_diff(tmp_path, candidate(name))
    assert path.parent == tmp_path / "diffs"
    assert path.read_text() == f"+{name}\n"
