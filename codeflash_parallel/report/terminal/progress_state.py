"""What a run is doing at this moment, kept from its events: the state behind both boards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from codeflash_parallel.result.candidate.candidate_model import CandidateId
from codeflash_parallel.result.candidate.lifecycle import Stage
from codeflash_parallel.result.events import (
    CandidateFinished,
    CandidateMoved,
    Event,
    PhaseStarted,
    RaceProgress,
    RunStarted,
    RunWaits,
    StepChanged,
)
from codeflash_parallel.result.result_model import CandidateResult


@dataclass(kw_only=True, slots=True)
class BoardRow:
    """One candidate on the board; `since` and `until` are seconds of the board's clock."""

    candidate: CandidateId
    since: float
    stage: Stage = Stage.SUBMITTED
    slot: int = 0
    until: float | None = None
    result: CandidateResult | None = None

    def elapsed(self, now: float) -> float:
        """Return the seconds since it was first at work."""
        return (self.until if self.until is not None else now) - self.since


def race_words(race: RaceProgress) -> str:
    """Return how a race stands, one clause."""
    leads = f"{race.leader} leads with {race.speedup:.2f}x" if race.leader else "nobody leads"
    field = f"{race.racing} candidate{'' if race.racing == 1 else 's'}"
    left = f"{race.seconds_left:.0f} s left at most"
    return f"{race.stage}: round {race.rounds}, {field}, {leads}, {left}"


class Progress:
    """Follow a run's events; one invariant: every candidate that was ever named has exactly one row."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.started = clock()
        self.slots = 0
        self.phase = ""
        self.detail = ""
        self.waits = ""
        self.step = ""
        self.done = self.total = 0
        self.step_since = self.started
        self.race: RaceProgress | None = None
        self.rows: dict[CandidateId, BoardRow] = {}

    def update(self, event: Event) -> None:
        """Take an event in."""
        match event:
            case RunStarted():
                self.slots = event.slots
            case PhaseStarted():
                self.phase, self.detail, self.race = event.phase, event.detail, None
                self._step("", 0, 0)
            case StepChanged():
                self._step(event.step, event.done, event.total)
            case RaceProgress():
                self.race = event
            case RunWaits():
                self.waits = event.why
            case CandidateMoved():
                self._moved(event)
            case CandidateFinished():
                row = self._row(event.candidate)
                row.stage, row.slot, row.result, row.until = Stage.FINISHED, 0, event.result, self._clock()
            case _:
                pass  # warnings and the end do not change who is where

    def now(self) -> float:
        """Return the clock's reading."""
        return self._clock()

    def judged(self) -> int:
        """Return how many candidates have a result."""
        return sum(row.result is not None for row in self.rows.values())

    def step_words(self) -> str:
        """Return the step with its count and its seconds, or how the race stands; empty: neither."""
        if self.race is not None:
            return race_words(self.race)
        if not self.step:
            return ""
        count = f"{self.done} of {self.total}, " if self.total else f"{self.done}, " if self.done else ""
        return f"{self.step}: {count}{self.now() - self.step_since:.0f} s"

    def _step(self, step: str, done: int, total: int) -> None:
        if step != self.step:
            self.step, self.step_since = step, self._clock()
        self.done, self.total = done, total

    def _moved(self, event: CandidateMoved) -> None:
        row = self._row(event.candidate)
        if event.stage == Stage.CHECKING and row.stage != Stage.CHECKING:
            row.since = self._clock()
        row.stage, row.slot = event.stage, event.slot
        if event.stage != Stage.FINISHED:
            row.until = row.result = None

    def _row(self, candidate: CandidateId) -> BoardRow:
        return self.rows.setdefault(candidate, BoardRow(candidate=candidate, since=self._clock()))
