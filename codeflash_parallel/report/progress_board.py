"""Progress while a run lasts: a live board on a terminal, plain lines everywhere else. Both are observers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import RLock
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from codeflash_parallel.report.columns import STYLES, verdict_cell
from codeflash_parallel.report.console import make_console
from codeflash_parallel.result.candidate_model import CandidateId
from codeflash_parallel.result.events import (
    CandidateFinished,
    CandidateMoved,
    Event,
    Observer,
    PhaseStarted,
    RaceProgress,
    RunStarted,
    RunWaits,
    Stage,
    StepChanged,
    Warned,
)
from codeflash_parallel.result.result_model import CandidateResult
from codeflash_parallel.result.safe_text import one_line

#: Frames a second; a board is read, not watched.
_FRAMES_PER_S = 4

#: Lines of the terminal that the board leaves free, so that it never scrolls.
_SPARE_LINES = 4

#: Plain lines say how a race stands after so many seconds, and whenever another one leads.
_ROUND_S = 3.0
#: Plain lines repeat a step that goes on after so many seconds.
_REPEAT_S = 10.0

#: Those at work come first, then those that wait, then those that are done.
_STAGES = (
    *(Stage.CHECKING, Stage.RACING, Stage.CONFIRMING, Stage.PREPARING),
    *(Stage.PASSED, Stage.RACED, Stage.QUEUED, Stage.SUBMITTED),
    Stage.FINISHED,
)


@contextmanager
def open_board(stream: TextIO) -> Iterator[Observer]:
    """Give the board that suits a stream; whether it is a terminal is decided here, once."""
    console = make_console(stream)
    if not console.is_terminal or console.is_dumb_terminal or os.environ.get("CI", ""):
        yield PlainLines(console, time.monotonic)
        return
    board = LiveBoard(console, time.monotonic)
    try:
        yield board
    finally:
        board.close()


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
        self.now = clock
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
                row.stage, row.slot, row.result, row.until = Stage.FINISHED, 0, event.result, self.now()
            case _:
                pass  # warnings and the end do not change who is where

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
            self.step, self.step_since = step, self.now()
        self.done, self.total = done, total

    def _moved(self, event: CandidateMoved) -> None:
        row = self._row(event.candidate)
        if event.stage == Stage.CHECKING and row.stage != Stage.CHECKING:
            row.since = self.now()
        row.stage, row.slot = event.stage, event.slot
        if event.stage != Stage.FINISHED:
            row.until = row.result = None

    def _row(self, candidate: CandidateId) -> BoardRow:
        return self.rows.setdefault(candidate, BoardRow(candidate=candidate, since=self.now()))


class PlainLines:
    """An observer that writes one line when something starts or ends."""

    def __init__(self, console: Console, clock: Callable[[], float]) -> None:
        self._console = console
        self._progress = Progress(clock)
        self._said: set[tuple[str, str]] = set()
        self._step, self._step_said = "", 0.0
        self._race: tuple[str, str | None] = ("", None)

    def __call__(self, event: Event) -> None:
        """Write the event's line, if it has one."""
        self._progress.update(event)
        match event:
            case PhaseStarted():
                self._say(f"{event.phase} {event.detail}")
            case StepChanged():
                self._stepped(event.step)
            case RaceProgress():
                self._raced(event)
            case CandidateMoved(stage=Stage.CHECKING):
                self._say(f"start {event.candidate} slot {event.slot}")
            case CandidateMoved(stage=Stage.CONFIRMING):
                self._say(f"check {event.candidate} in a new process")
            case CandidateFinished():
                self._finished(event)
            case RunWaits():
                self._say(f"waits: {event.why}" if event.why else "goes on")
            case Warned():
                self._say(f"warning: {event.message}")
            case _:
                pass  # other steps are too many for a log

    def _stepped(self, step: str) -> None:
        """Write a step when it begins, and from time to time while it goes on."""
        now = self._progress.now()
        if step == self._step and now - self._step_said < _REPEAT_S:
            return
        if step:
            self._say(self._progress.step_words() if step == self._step else step)
        self._step, self._step_said = step, now

    def _raced(self, race: RaceProgress) -> None:
        now, state = self._progress.now(), (race.stage, race.leader)
        if state != self._race or now - self._step_said >= _ROUND_S:
            self._say(race_words(race))
            self._race, self._step_said = state, now

    def _finished(self, event: CandidateFinished) -> None:
        said = (str(event.candidate), verdict_cell(event.result))
        if said not in self._said:  # a provisional result is repeated by the final one when nothing changed
            self._said.add(said)
            row = self._progress.rows[event.candidate]
            seconds = row.elapsed(self._progress.now())
            self._say(f"finish {said[0]} {said[1]} {seconds:.1f} s")

    def _say(self, line: str) -> None:
        self._console.print(Text(one_line(line)), soft_wrap=True)


class LiveBoard:
    """An observer that keeps a table of all candidates up to date at the bottom of a terminal.

    It is erased when the run is over. While a race runs it is redrawn between rounds only: redrawing takes
    time that others measure.
    """

    def __init__(self, console: Console, clock: Callable[[], float]) -> None:
        self._console = console
        self._progress = Progress(clock)
        self._lock = RLock()  # rich draws from a thread of its own
        self._live: Live | None = None

    def __call__(self, event: Event) -> None:
        """Take an event in; the next frame shows it."""
        with self._lock:
            self._progress.update(event)
        if isinstance(event, Warned):
            self._console.print(Text.assemble(("warning: ", "yellow"), one_line(event.message)))
        if isinstance(event, PhaseStarted):
            self.close()
        if self._live is None:
            self._open()
        elif not self._live.auto_refresh:
            self._live.refresh()

    def close(self) -> None:
        """Erase the board and stop drawing."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()

    def render(self) -> RenderableType:
        """Return the board as it is now."""
        with self._lock:
            return Group(self._heading(), self._rows())

    def _open(self) -> None:
        self._live = Live(
            console=self._console,
            get_renderable=self.render,
            refresh_per_second=_FRAMES_PER_S,
            auto_refresh=self._progress.phase != "race",
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start(refresh=True)

    def _heading(self) -> Text:
        progress = self._progress
        seconds = int(progress.now() - progress.started)
        waits = f"waits: {one_line(progress.waits)}  " if progress.waits else ""
        step = f"{words}  " if (words := progress.step_words()) else ""
        results = sum(row.result is not None for row in progress.rows.values())
        judged = f"{results} of {len(progress.rows)} judged  " if progress.rows else ""
        return Text.assemble(
            (one_line(f"{progress.phase} {progress.detail}").strip() or "start", "bold"),
            f"  {waits}{step}{judged}{progress.slots} slots  {seconds // 60:02d}:{seconds % 60:02d}",
            no_wrap=True,
            overflow="ellipsis",
        )

    def _rows(self) -> Table:
        table = Table.grid(padding=(0, 2, 0, 0))
        for _ in range(3):
            table.add_column(no_wrap=True, overflow="ellipsis")
        table.add_column(justify="right", no_wrap=True)
        rows = sorted(self._progress.rows.values(), key=lambda row: _STAGES.index(row.stage))
        room = max(3, self._console.height - _SPARE_LINES)
        for row in rows[:room]:
            table.add_row(*_cells(row, self._progress.now()))
        if len(rows) > room:
            table.add_row("", Text(f"and {len(rows) - room} more", style="dim"))
        return table


def _cells(row: BoardRow, now: float) -> tuple[Text, ...]:
    slot = Text(f"slot {row.slot}" if row.slot else "", style="cyan")
    name = Text(one_line(row.candidate, limit=40))
    if row.result is not None:
        stage = Text(verdict_cell(row.result), style=STYLES[row.result.status])
    else:
        stage = Text(row.stage.value, style="bold" if row.slot else "dim")
    waiting = row.stage in {Stage.SUBMITTED, Stage.PREPARING, Stage.QUEUED}
    return slot, name, stage, Text("" if waiting else f"{row.elapsed(now):.1f} s", style="dim")
