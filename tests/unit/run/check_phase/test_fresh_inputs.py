"""The smaller example of a difference."""

from __future__ import annotations

from codeflash_parallel.check.session.runner_report import CallDigests, CallOutcome, RunnerReport
from codeflash_parallel.result.outcome_codes import Code
from codeflash_parallel.run.check_phase.fresh_inputs import smallest_like


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
