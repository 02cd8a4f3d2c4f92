"""Frozen events that observers receive; the last one of a run is always `RunFinished`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from codeflash_parallel.result.candidate.candidate_model import CandidateId
from codeflash_parallel.result.candidate.lifecycle import Stage
from codeflash_parallel.result.result_model import CandidateResult, RunResult


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
    """A candidate is at another stage; `slot` is 0 when it holds none, else its number from 1."""

    run_id: str
    candidate: CandidateId
    stage: Stage
    slot: int = 0


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
    """

    run_id: str
    stage: str
    rounds: int
    most_rounds: int
    racing: int
    leader: CandidateId | None
    speedup: float
    seconds_left: float


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
