"""The table of a candidate's life: every walk ends, illegal steps change nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.result.candidate.candidate_model import CandidateId, PatchText, Submission
from codeflash_parallel.result.candidate.lifecycle import FINAL_STATUSES, TRANSITIONS, Stage, Step, advance
from codeflash_parallel.result.errors import InternalError
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code
from codeflash_parallel.run.ledger import Ledger


@given(st.lists(st.sampled_from(list(Step)), max_size=30))
def test_a_walk_follows_the_table_and_illegal_steps_raise(steps: list[Step]) -> None:
    stage = Stage.SUBMITTED
    for step in steps:
        if (stage, step) in TRANSITIONS:
            stage = advance(stage, step)
        else:
            with pytest.raises(InternalError):
                advance(stage, step)


def test_every_stage_but_the_last_can_be_cancelled_and_leads_to_the_end() -> None:
    for stage in set(Stage) - {Stage.FINISHED}:
        assert advance(stage, Step.CANCEL) is Stage.FINISHED
        assert CandidateStatus.CANCELLED in FINAL_STATUSES[stage]
    assert not [pair for pair in TRANSITIONS if pair[0] is Stage.FINISHED]


def test_every_stage_is_reachable() -> None:
    reached, frontier = {Stage.SUBMITTED}, [Stage.SUBMITTED]
    while frontier:
        here = frontier.pop()
        following = {after for (before, _), after in TRANSITIONS.items() if before is here} - reached
        reached |= following
        frontier += following
    assert reached == set(Stage)


@given(st.lists(st.sampled_from(list(Step)), max_size=12), st.sampled_from(list(CandidateStatus)))
def test_a_ledger_never_gives_a_status_that_cannot_follow(steps: list[Step], status: CandidateStatus) -> None:
    ledger = Ledger("run")
    entry = ledger.add(Submission(id=CandidateId("a"), content=PatchText(patch="")))
    for step in steps:
        if (entry.stage, step) in TRANSITIONS and TRANSITIONS[entry.stage, step] is not Stage.FINISHED:
            ledger.move(entry, step)
    before = entry.stage
    if status in FINAL_STATUSES[before]:
        ledger.finish(entry, status, Code.OK, "because")
        assert entry.stage is Stage.FINISHED
        assert entry.result is not None
        assert entry.result.status is status
    else:
        with pytest.raises(InternalError):
            ledger.finish(entry, status, Code.OK, "because")
        assert entry.stage is before
        assert entry.result is None
