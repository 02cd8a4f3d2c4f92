"""One candidate's way through a run, as a literal table.

Theory of operation: a candidate is *submitted*; it is *prepared* (turned into edits, compared with what was
seen before) and then waits in line (*queued*) for a slot. In the slot it is *checked*. A broken slot puts it
back in line. Equivalent candidates wait for the race (*passed*), are *racing*, and end as one of the final
statuses. One that was screened with some of the tests is checked again, with all of them, before it may
race, and who leads after the race is *confirming*, in a clean process; both may still reject it. Every state
that is not final can be cancelled. An illegal transition raises and leaves the state as it was.
"""

from __future__ import annotations

from enum import StrEnum

from codeflash_parallel.result.errors import InternalError
from codeflash_parallel.result.outcome_codes import CandidateStatus


class Stage(StrEnum):
    """Where a candidate is; shown on the live board."""

    #: Handed in.
    SUBMITTED = "submitted"
    #: Being turned into edits.
    PREPARING = "preparing"
    #: Waits for a slot.
    QUEUED = "queued"
    #: In a slot, its tests and calls are run.
    CHECKING = "checking"
    #: Equivalent; waits for the race.
    PASSED = "passed"
    #: In the race.
    RACING = "racing"
    #: Measured; waits for the ranking.
    RACED = "raced"
    #: Leads; is checked once more, in a clean process.
    CONFIRMING = "confirming"
    #: Judged.
    FINISHED = "finished"


class Step(StrEnum):
    """What can happen to a candidate."""

    #: Work on turning it into edits begins.
    PREPARE = "prepare"
    #: It became edits unlike any seen before.
    ENQUEUE = "enqueue"
    #: A slot took it.
    STAGE = "stage"
    #: The slot broke: back in line.
    RETURN = "return"
    #: It is equivalent to the baseline.
    PASS = "pass"  # noqa: S105 - the name of a step
    #: The race took it.
    RACE = "race"
    #: The race measured it.
    MEASURE = "measure"
    #: It leads: a clean process has the last word.
    CONFIRM = "confirm"
    #: It has a final status.
    FINISH = "finish"
    #: The run ended first.
    CANCEL = "cancel"


TRANSITIONS: dict[tuple[Stage, Step], Stage] = {
    (Stage.SUBMITTED, Step.PREPARE): Stage.PREPARING,
    (Stage.SUBMITTED, Step.CANCEL): Stage.FINISHED,
    (Stage.PREPARING, Step.ENQUEUE): Stage.QUEUED,
    (Stage.PREPARING, Step.FINISH): Stage.FINISHED,  # unappliable, duplicate
    (Stage.PREPARING, Step.CANCEL): Stage.FINISHED,
    (Stage.QUEUED, Step.STAGE): Stage.CHECKING,
    (Stage.QUEUED, Step.FINISH): Stage.FINISHED,  # infra: no slot left
    (Stage.QUEUED, Step.CANCEL): Stage.FINISHED,
    (Stage.CHECKING, Step.RETURN): Stage.QUEUED,
    (Stage.CHECKING, Step.PASS): Stage.PASSED,
    (Stage.CHECKING, Step.FINISH): Stage.FINISHED,  # rejected, infra
    (Stage.CHECKING, Step.CANCEL): Stage.FINISHED,
    (Stage.PASSED, Step.STAGE): Stage.CHECKING,  # again, with the tests that screening left out
    (Stage.PASSED, Step.RACE): Stage.RACING,
    (Stage.PASSED, Step.FINISH): Stage.FINISHED,  # not raced: check only, or the budget was spent; rejected
    (Stage.PASSED, Step.CANCEL): Stage.FINISHED,
    (Stage.RACING, Step.MEASURE): Stage.RACED,
    (Stage.RACING, Step.FINISH): Stage.FINISHED,  # wrong in a timed unit, infra
    (Stage.RACING, Step.CANCEL): Stage.FINISHED,
    (Stage.RACED, Step.RACE): Stage.RACING,  # a refinement joined: raced again
    (Stage.RACED, Step.CONFIRM): Stage.CONFIRMING,
    (Stage.RACED, Step.FINISH): Stage.FINISHED,
    (Stage.RACED, Step.CANCEL): Stage.FINISHED,
    (Stage.CONFIRMING, Step.MEASURE): Stage.RACED,  # confirmed; what was measured holds
    (Stage.CONFIRMING, Step.FINISH): Stage.FINISHED,  # rejected, infra
    (Stage.CONFIRMING, Step.CANCEL): Stage.FINISHED,
}

#: Statuses that a candidate may end with, by the stage it ended from.
FINAL_STATUSES: dict[Stage, frozenset[CandidateStatus]] = {
    Stage.SUBMITTED: frozenset({CandidateStatus.CANCELLED}),
    Stage.PREPARING: frozenset(
        {
            CandidateStatus.UNAPPLIABLE,
            CandidateStatus.DUPLICATE,
            CandidateStatus.CANCELLED,
            CandidateStatus.REJECTED,
        }
    ),
    Stage.QUEUED: frozenset({CandidateStatus.INFRA, CandidateStatus.CANCELLED}),
    Stage.CHECKING: frozenset({CandidateStatus.REJECTED, CandidateStatus.INFRA, CandidateStatus.CANCELLED}),
    Stage.PASSED: frozenset(
        {
            CandidateStatus.UNDECIDED,
            CandidateStatus.REJECTED,
            CandidateStatus.INFRA,
            CandidateStatus.CANCELLED,
        }
    ),
    Stage.RACING: frozenset(
        {
            CandidateStatus.REJECTED,
            CandidateStatus.INFRA,
            CandidateStatus.UNDECIDED,
            CandidateStatus.CANCELLED,
        }
    ),
    Stage.RACED: frozenset(set(CandidateStatus) - {CandidateStatus.UNAPPLIABLE, CandidateStatus.DUPLICATE}),
    Stage.CONFIRMING: frozenset(
        {
            CandidateStatus.REJECTED,
            CandidateStatus.INFRA,
            CandidateStatus.UNDECIDED,
            CandidateStatus.CANCELLED,
        }
    ),
}


def advance(stage: Stage, step: Step) -> Stage:
    """Return the stage after a step.

    Raises:
        InternalError: `ILLEGAL_TRANSITION`; nothing has changed.
    """
    try:
        return TRANSITIONS[stage, step]
    except KeyError:
        raise InternalError("ILLEGAL_TRANSITION", f"A candidate that is {stage} cannot {step}.") from None
