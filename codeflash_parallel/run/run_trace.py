"""Trace of a stored run: the rounds behind its speedups, and when each candidate was at which stage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import exp
from pathlib import Path
from time import monotonic_ns
from typing import NamedTuple

from codeflash_parallel.process.files import write_atomically
from codeflash_parallel.race.race_result import Raced
from codeflash_parallel.result.events import CandidateFinished, CandidateMoved, Event, PhaseStarted, Stage
from codeflash_parallel.run.run_state import FOLDER, StepKind, read_value, text_of

_TIMELINE = "timeline.json"
#: Stages of work; at all others a candidate waits.
_AT_WORK = frozenset({Stage.CHECKING, Stage.RACING, Stage.CONFIRMING})


class Moment(NamedTuple):
    """A candidate came to a stage, or the run to a phase.

    Args:
        at_ms: milliseconds since the run began; of a run that was resumed, since its last process began.
        candidate: its id; empty: the run itself.
        stage: the stage, or the phase.
        slot: number of the slot that it holds, from 1; 0: none, or all of them.
    """

    at_ms: float
    candidate: str
    stage: str
    slot: int


class StageSpan(NamedTuple):
    """Work on a candidate, or a phase of the run, from one moment to another."""

    candidate: str
    stage: str
    slot: int
    from_ms: float
    to_ms: float


class ArmRounds(NamedTuple):
    """Speedups of a candidate in each round that counted.

    Args:
        stage: `race` or `confirmation`.
        seen: on the calls of the tests, or whatever else was timed.
        unseen: on other values of the same shape; empty where there are none.
    """

    stage: str
    seen: tuple[float, ...]
    unseen: tuple[float, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class RunTrace:
    """Trace of a run; both are empty where nothing is stored.

    Attributes:
        rounds: by candidate; of the confirmation, if it was in one.
        moments: in the order of time.
    """

    rounds: Mapping[str, ArmRounds] = field(default_factory=dict)
    moments: tuple[Moment, ...] = ()


class TimelineRecorder:
    """An observer that notes when candidates and the run moved."""

    def __init__(self) -> None:
        self._moments: list[Moment] = []
        self._began_ns = monotonic_ns()

    def __call__(self, event: Event) -> None:
        """Note an event."""
        match event:
            case CandidateMoved():
                self._note(event.candidate, event.stage, event.slot)
            case CandidateFinished():
                self._note(event.candidate, Stage.FINISHED)
            case PhaseStarted():
                self._note("", event.phase)
            case _:
                pass

    def _note(self, candidate: str, stage: str, slot: int = 0) -> None:
        at_ms = round((monotonic_ns() - self._began_ns) / 1e6, 1)
        self._moments.append(Moment(at_ms, candidate, str(stage), slot))

    def save(self, run_dir: Path) -> None:
        """Write the moments into the folder of the run; a full disk costs the picture, not the run."""
        with suppress(OSError):
            write_atomically(run_dir / _TIMELINE, text_of(tuple[Moment, ...], tuple(self._moments)))


def read_trace(run_dir: Path) -> RunTrace:
    """Return what is stored of a run's rounds and moments; what is missing or damaged is left out."""
    moments = read_value(tuple[Moment, ...], run_dir / _TIMELINE)
    return RunTrace(rounds=_rounds(run_dir), moments=moments or ())


def _rounds(run_dir: Path) -> dict[str, ArmRounds]:
    paths = sorted((run_dir / FOLDER).glob(f"*/{StepKind.RACE}-*.json"), key=lambda p: p.stat().st_mtime_ns)
    held: list[Raced] = [raced for path in paths if (raced := read_value(Raced, path)) is not None]
    found: dict[str, ArmRounds] = {}
    for raced in sorted(held, key=lambda one: one.plan.stage == "confirmation"):
        for name in raced.candidates:
            if name in raced.tracks and (track := raced.tracks[name]).total:
                seen, unseen = (tuple(map(exp, ratios)) for ratios in (track.total, track.unseen))
                found[name] = ArmRounds(raced.plan.stage.value, seen, unseen)
    return found


def spans_of(moments: Sequence[Moment]) -> list[StageSpan]:
    """Return the work on candidates and the phases of the run, each in the order of its beginning."""
    return sorted(_spans(moments), key=lambda span: span.from_ms)


def _spans(moments: Sequence[Moment]) -> Iterator[StageSpan]:
    open_moments: dict[str, Moment] = {}
    end = Moment(moments[-1].at_ms, "", "", 0) if moments else None
    for moment in moments:
        before = open_moments.get(moment.candidate)
        if before is not None and (not before.candidate or before.stage in _AT_WORK):
            yield _span(before, moment)
        open_moments[moment.candidate] = moment
    for left in open_moments.values():
        if end is not None and (not left.candidate or left.stage in _AT_WORK):
            yield _span(left, end)


def _span(begin: Moment, end: Moment) -> StageSpan:
    return StageSpan(begin.candidate, begin.stage, begin.slot, begin.at_ms, end.at_ms)
