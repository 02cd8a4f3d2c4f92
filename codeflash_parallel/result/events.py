"""Stages of a candidate, and the frozen events that observers receive; the last one is `RunFinished`.

A candidate is *submitted*, *prepared* (turned into edits, compared with earlier ones) and waits for a slot
(*queued*), where it is *checked*. A broken slot puts it back in line. Equivalent candidates wait for the race
(*passed*), are *racing*, and the leaders are *confirming*, in a clean process. One that was screened with
some of the tests is checked again, with all of them, before it may race.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from codeflash_parallel.result.candidate_model import CandidateId
from codeflash_parallel.result.errors import InternalError
from codeflash_parallel.result.result_model import CandidateResult, RunResult


class Stage(StrEnum):
    """Stages of a candidate; shown on the live board."""

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
    """Steps of a candidate from stage to stage."""

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
    #: It has a final status, or the run ended first: possible at every stage before the last one.
    FINISH = "finish"


#: Stage → the steps that are legal there, `FINISH` besides → the next stage.
TRANSITIONS: dict[Stage, dict[Step, Stage]] = {
    Stage.SUBMITTED: {Step.PREPARE: Stage.PREPARING},
    Stage.PREPARING: {Step.ENQUEUE: Stage.QUEUED},
    Stage.QUEUED: {Step.STAGE: Stage.CHECKING},
    Stage.CHECKING: {Step.RETURN: Stage.QUEUED, Step.PASS: Stage.PASSED},
    # Staged again: with the tests that screening left out.
    Stage.PASSED: {Step.STAGE: Stage.CHECKING, Step.RACE: Stage.RACING},
    Stage.RACING: {Step.MEASURE: Stage.RACED},
    # Raced again: a refinement has joined.
    Stage.RACED: {Step.RACE: Stage.RACING, Step.CONFIRM: Stage.CONFIRMING},
    Stage.CONFIRMING: {Step.MEASURE: Stage.RACED},
    Stage.FINISHED: {},
}


def advance(stage: Stage, step: Step) -> Stage:
    """Return the stage after a step.

    Raises:
        InternalError: `ILLEGAL_TRANSITION`; nothing has changed.
    """
    if step is Step.FINISH and stage is not Stage.FINISHED:
        return Stage.FINISHED
    try:
        return TRANSITIONS[stage][step]
    except KeyError:
        raise InternalError("ILLEGAL_TRANSITION", f"A candidate that is {stage} cannot {step}.") from None


@dataclass(frozen=True, kw_only=True, slots=True)
class RunStarted:
    """The run exists; nothing has been done yet."""

    run_id: str
    slots: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseStarted:
    """The run turned to something: `snapshot`, `baseline`, `behavior`, `race`, `profile`, `refine`."""

    run_id: str
    phase: str
    detail: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class StepChanged:
    """A step of the phase has begun, or has come further.

    Attributes:
        step: what is done, one clause; empty: nothing that needs words.
        done, total: tests or calls; a total of 0 is not known.
    """

    run_id: str
    step: str
    done: int = 0
    total: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class CandidateMoved:
    """A candidate is at another stage.

    Attributes:
        slot: number of the slot of this machine that it holds, from 1; 0: none.
        host: that checks it; empty: this machine.
    """

    run_id: str
    candidate: CandidateId
    stage: Stage
    slot: int = 0
    host: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class CandidateFinished:
    """A candidate has a final (or, before the ranking, a provisional `undecided`) result."""

    run_id: str
    candidate: CandidateId
    result: CandidateResult


@dataclass(frozen=True, kw_only=True, slots=True)
class Warned:
    """Something a person should know, one sentence."""

    run_id: str
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RunWaits:
    """Somebody else on this machine is waited for: why, one clause; empty: not any more."""

    run_id: str
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RaceProgress:
    """A round of a race is over.

    Attributes:
        stage: `race`, which finds the leaders, or `confirmation` of them.
        rounds: held so far.
        most_rounds: that this race may have.
        racing: candidates that are still timed.
        leader: the fastest of them so far.
        speedup: its estimate, over the baseline; no claim.
        seconds_left: of this race's budget; it takes that long at most.
        out: candidates that are timed no longer, and why, a clause each.
    """

    run_id: str
    stage: str
    rounds: int
    most_rounds: int
    racing: int
    leader: CandidateId | None
    speedup: float
    seconds_left: float
    out: Mapping[CandidateId, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFinished:
    """The run is over."""

    run_id: str
    result: RunResult


Event = (
    RunStarted
    | PhaseStarted
    | StepChanged
    | CandidateMoved
    | CandidateFinished
    | Warned
    | RunWaits
    | RaceProgress
    | RunFinished
)


class Observer(Protocol):
    """Receives every event, in order, on the event loop's thread. It must return quickly.

    An observer that raises is dropped with a warning; it never changes a verdict.
    """

    def __call__(self, event: Event, /) -> None:
        """Take one event."""
        ...
