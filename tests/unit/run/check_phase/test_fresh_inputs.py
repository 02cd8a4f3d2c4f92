"""The smaller example of a difference; inputs of earlier fields that fit a later one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from codeflash_parallel.check.session.runner_report import CallDigests, CallOutcome, RunnerReport
from codeflash_parallel.check.session.runner_session import DerivationRequest
from codeflash_parallel.result.codec import to_plain
from codeflash_parallel.result.outcome_codes import Code
from codeflash_parallel.run.check_phase.fresh_inputs import fitting, smallest_like


def test_the_smallest_that_differs_in_the_same_way_counts() -> None:
    example = CallOutcome(index=9, test="", target=0, kind="return", type="int", digest="x", after="")

    def made(index: int, **fields: str) -> CallOutcome:
        known = {"kind": "return", "type": "int", "digest": str(index), "after": "same", **fields}
        return CallOutcome(index=index, test="", target=0, **known)

    def answer(index: int, **fields: str) -> CallDigests:
        known = {"kind": "return", "type": "int", "digest": "other", "after": "same", **fields}
        return CallDigests(call=index, floatless="", typeless="", traces="", ns=0, **known)

    outcomes = {index: made(index) for index in range(5)} | {1: made(1, kind="raise", type="ValueError")}
    answers = (answer(0, digest="0"), answer(1), answer(2, digest="2", after="other"), answer(3), answer(4))
    report = RunnerReport(answers=answers)
    assert smallest_like(Code.VALUE_DIFFERS, example, outcomes, report) == 3
    assert smallest_like(Code.INPUT_MUTATED, example, outcomes, report) == 2
    assert smallest_like(Code.FLOAT_DIFFERS, example, outcomes, report) is None
    assert smallest_like(Code.VALUE_DIFFERS, example, {}, report) is None


def wanted(*constants: int | str) -> DerivationRequest:
    return DerivationRequest(constants=constants, check_s=0.05)


def make(folder: Path, request: DerivationRequest) -> Path:
    folder.mkdir(parents=True)
    (folder / "wanted.json").write_text(json.dumps(to_plain(request)), encoding="utf-8")
    (folder / "baseline.json").write_text("{}", encoding="utf-8")
    return folder


def test_inputs_of_an_earlier_field_serve_one_that_wants_some_of_their_constants(tmp_path: Path) -> None:
    large = make(tmp_path / "large", wanted(2, 3, "de", 50))
    small = make(tmp_path / "small", wanted(3, "de"))
    assert fitting(tmp_path, wanted("de")) == (small, wanted(3, "de"))
    assert fitting(tmp_path, wanted(50, 2)) == (large, wanted(2, 3, "de", 50))


def test_new_constants_get_inputs_of_their_own(tmp_path: Path) -> None:
    first, request = fitting(tmp_path, wanted(7))
    assert request == wanted(7)
    make(first, request)
    second, other = fitting(tmp_path, wanted(8, "x"))
    assert (first != second, other) == (True, wanted(8, "x"))
    make(second, other)
    assert fitting(tmp_path, wanted("x")) == (second, other)
    assert fitting(tmp_path, wanted()) == (first, request)


def test_what_was_made_otherwise_or_is_damaged_or_unfinished_does_not_fit(tmp_path: Path) -> None:
    make(tmp_path / "deep", replace(wanted(1, 2), inside=4000))
    (make(tmp_path / "damaged", wanted(1, 2)) / "wanted.json").write_text("{", encoding="utf-8")
    (make(tmp_path / "empty", wanted(1, 2)) / "wanted.json").write_bytes(b"")
    (make(tmp_path / "another", wanted(1, 2)) / "wanted.json").write_text("[1]", encoding="utf-8")
    folder = make(tmp_path / "folder", wanted(1, 2))
    (folder / "wanted.json").unlink()
    (folder / "wanted.json").mkdir()
    (make(tmp_path / "unfinished", wanted(1, 2)) / "baseline.json").unlink()
    assert fitting(tmp_path, wanted(1))[1] == wanted(1)
