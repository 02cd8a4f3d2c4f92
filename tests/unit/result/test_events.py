"""Stages of a candidate: illegal steps raise and change nothing, and there is one result."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.result.candidate_model import CandidateId, PatchText, Submission
from codeflash_parallel.result.errors import InternalError
from codeflash_parallel.result.events import TRANSITIONS, Stage, Step, advance
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code
from codeflash_parallel.run.ledger import Ledger


def legal(stage: Stage, step: Step) -> bool:
    return step in TRANSITIONS[stage] or (step is Step.FINISH and stage is not Stage.FINISHED)


@given(st.lists(st.sampled_from(list(Step)), max_size=30))
def test_a_walk_follows_the_table_and_illegal_steps_raise(steps: list[Step]) -> None:
    stage = Stage.SUBMITTED
    for step in steps:
        if legal(stage, step):
            stage = advance(stage, step)
        else:
            with pytest.raises(InternalError):
                advance(stage, step)


def test_every_stage_but_the_last_can_be_finished() -> None:
    for stage in set(Stage) - {Stage.FINISHED}:
        assert advance(stage, Step.FINISH) is Stage.FINISHED
    with pytest.raises(InternalError):
        advance(Stage.FINISHED, Step.FINISH)


def test_every_stage_is_reachable() -> None:
    reached, frontier = {Stage.SUBMITTED}, [Stage.SUBMITTED]
    while frontier:
        following = set(TRANSITIONS[frontier.pop()].values()) - reached
        reached |= following
        frontier += following
    assert reached == set(Stage) - {Stage.FINISHED}


@given(st.lists(st.sampled_from(list(Step)), max_size=12))
def test_a_ledger_gives_one_result_and_keeps_it(steps: list[Step]) -> None:
    ledger = Ledger("run")
    entry = ledger.add(Submission(id=CandidateId("a"), content=PatchText(patch="")))
    for step in steps:
        if step is not Step.FINISH and legal(entry.stage, step):
            ledger.move(entry, step)
    ledger.finish(entry, CandidateStatus.REJECTED, Code.TESTS_FAILED, "because")
    assert entry.stage is Stage.FINISHED
    with pytest.raises(InternalError):
        ledger.finish(entry, CandidateStatus.INFRA, Code.INFRA_SLOT, "again")
    assert entry.result is not None
    assert entry.result.status is CandidateStatus.REJECTED
