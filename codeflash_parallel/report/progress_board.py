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
    if not stream.isatty() or console.is_dumb_terminal or os.environ.get("CI", ""):
        yield PlainLines(console, time.monotonic)
        return
    board = LiveBoard(console, time.monotonic)
    try:
        yield board
    finally:
        board.close()


@dataclass(kw_only=True, slots=True)
class BoardRow:
    """One candidate on the board.

    Attributes:
        since, until: seconds of the board's clock.
        out: why the race times it no longer; empty: it does.
    """

    candidate: CandidateId
    since: float
    stage: Stage = Stage.SUBMITTED
    slot: int = 0
    host: str = ""
    until: float | None = None
    result: CandidateResult | None = None
    out: str = ""

    def elapsed(self, now: float) -> float:
        """Return the seconds since it was first at work."""
        return (self.until if self.until is not None else now) - self.since


def race_words(race: RaceProgress) -> str:
    """Return how a race stands, one clause."""
    leads = f"{race.leader} leads with {race.speedup:.2f}x" if race.leader else "none leads"
    field = f"{race.racing} candidate{'' if race.racing == 1 else 's'}"
    return f"{race.stage}: round {race.rounds}, {field}, {leads}, {race.seconds_left:.0f} s left at most"


class Progress:
    """State of a run by its events. Invariant: every candidate that was ever named has exactly one row."""

    def __init__(self, console: Console, clock: Callable[[], float]) -> None:
        self._console = console
        self._now = clock
        self._started = self._step_since = clock()
        self._slots, self._phase, self._detail, self._waits = 0, "", "", ""
        self._step = StepChanged(run_id="", step="")
        self._race: RaceProgress | None = None
        self._rows: dict[CandidateId, BoardRow] = {}

    def _update(self, event: Event) -> None:
        match event:
            case RunStarted():
                self._slots = event.slots
            case PhaseStarted():
                self._phase, self._detail, self._race = event.phase, event.detail, None
                self._begin(StepChanged(run_id=event.run_id, step=""))
            case StepChanged():
                self._begin(event)
            case RaceProgress():
                self._race = event
                for candidate, why in event.out.items():
                    self._row(candidate).out = why
            case RunWaits():
                self._waits = event.why
            case CandidateMoved():
                row = self._row(event.candidate)
                row.out = ""
                if event.stage == Stage.CHECKING and row.stage != Stage.CHECKING:
                    row.since = self._now()
                row.stage, row.slot, row.host = event.stage, event.slot, event.host
                row.until, row.result = None, None
            case CandidateFinished():
                row = self._row(event.candidate)
                row.stage, row.slot, row.host = Stage.FINISHED, 0, ""
                row.result, row.until = event.result, self._now()
            case _:
                pass  # warnings and the end move no candidate

    def _begin(self, step: StepChanged) -> None:
        if step.step != self._step.step:
            self._step_since = self._now()
        self._step = step

    def _row(self, candidate: CandidateId) -> BoardRow:
        return self._rows.setdefault(candidate, BoardRow(candidate=candidate, since=self._now()))

    def _step_words(self) -> str:
        """Return the step with its count and its seconds, or how the race stands; empty: neither."""
        if self._race is not None:
            return race_words(self._race)
        done, total = self._step.done, self._step.total
        count = f"{done} of {total}, " if total else f"{done}, " if done else ""
        return f"{self._step.step}: {count}{self._now() - self._step_since:.0f} s" if self._step.step else ""


class PlainLines(Progress):
    """An observer that writes one line when something starts or ends."""

    def __init__(self, console: Console, clock: Callable[[], float]) -> None:
        super().__init__(console, clock)
        self._said: set[tuple[str, str]] = set()
        self._said_out: set[tuple[str, CandidateId]] = set()
        self._said_step, self._said_s = "", 0.0
        self._said_race: tuple[str, str | None] = ("", None)

    def __call__(self, event: Event) -> None:
        """Write the event's line, if it has one."""
        self._update(event)
        match event:
            case PhaseStarted():
                self._said_out.clear()
                self._say(f"{event.phase} {event.detail}")
            case StepChanged():
                self._stepped(event.step)
            case RaceProgress():
                self._left_race(event)
                state = (event.stage, event.leader)
                if state != self._said_race or self._now() - self._said_s >= _ROUND_S:
                    self._say(race_words(event))
                    self._said_race, self._said_s = state, self._now()
            case CandidateMoved(stage=Stage.CHECKING, host=host, slot=slot) if host or slot:
                self._say(f"start {event.candidate} {f'on {host}' if host else f'slot {slot}'}")
            case CandidateMoved(stage=Stage.CONFIRMING):
                self._say(f"check {event.candidate} in a new process")
            case CandidateFinished():
                self._finished(event)
            case RunWaits():
                self._say(f"waits: {event.why}" if event.why else "continues")
            case Warned():
                self._say(f"warning: {event.message}")
            case _:
                pass  # other steps are too many for a log

    def _left_race(self, race: RaceProgress) -> None:
        """Write who was timed in the round before, and is so no longer."""
        for candidate, why in race.out.items():
            if (race.stage, candidate) not in self._said_out:
                self._said_out.add((race.stage, candidate))
                self._say(f"out {candidate}: {why}")

    def _stepped(self, step: str) -> None:
        """Write a step when it begins, and from time to time while it goes on."""
        now = self._now()
        if step == self._said_step and now - self._said_s < _REPEAT_S:
            return
        if step:
            self._say(self._step_words() if step == self._said_step else step)
        self._said_step, self._said_s = step, now

    def _finished(self, event: CandidateFinished) -> None:
        said = (str(event.candidate), verdict_cell(event.result))
        if said not in self._said:  # a provisional result is repeated by the final one when nothing changed
            self._said.add(said)
            seconds = self._rows[event.candidate].elapsed(self._now())
            self._say(f"finish {said[0]} {said[1]} {seconds:.1f} s")

    def _say(self, line: str) -> None:
        self._console.print(Text(one_line(line)), soft_wrap=True)


class LiveBoard(Progress):
    """An observer that keeps a table of all candidates up to date at the bottom of a terminal.

    It is erased when the run is over. While a race runs it is redrawn between rounds only: redrawing takes
    time that others measure.
    """

    def __init__(self, console: Console, clock: Callable[[], float]) -> None:
        super().__init__(console, clock)
        self._lock = RLock()  # rich draws from a thread of its own
        self._live: Live | None = None

    def __call__(self, event: Event) -> None:
        """Take an event in; the next frame shows it."""
        with self._lock:
            self._update(event)
        if isinstance(event, Warned):
            self._console.print(Text.assemble(("warning: ", "yellow"), one_line(event.message)))
        if isinstance(event, PhaseStarted):
            self.close()
        if self._live is None:
            self._live = Live(
                console=self._console,
                get_renderable=self.render,
                refresh_per_second=_FRAMES_PER_S,
                auto_refresh=self._phase != "race",
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start(refresh=True)
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
            return Group(self._heading(), self._table())

    def _heading(self) -> Text:
        seconds = int(self._now() - self._started)
        results = sum(row.result is not None for row in self._rows.values())
        parts = (
            f"waits: {self._waits}" if self._waits else "",
            self._step_words(),
            f"{results} of {len(self._rows)} judged" if self._rows else "",
            f"{self._slots} slots",
            f"{seconds // 60:02d}:{seconds % 60:02d}",
        )
        return Text.assemble(
            (one_line(f"{self._phase} {self._detail}").strip() or "start", "bold"),
            *(f"  {one_line(part)}" for part in parts if part),
            no_wrap=True,
            overflow="ellipsis",
        )

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 2, 0, 0))
        for _ in range(3):
            table.add_column(no_wrap=True, overflow="ellipsis")
        table.add_column(justify="right", no_wrap=True)
        rows = sorted(self._rows.values(), key=lambda row: _STAGES.index(row.stage))
        room = max(3, self._console.height - _SPARE_LINES)
        for row in rows[:room]:
            table.add_row(*_cells(row, self._now()))
        if len(rows) > room:
            table.add_row("", Text(f"and {len(rows) - room} more", style="dim"))
        return table


def _cells(row: BoardRow, now: float) -> tuple[Text, ...]:
    slot = Text(one_line(row.host) or (f"slot {row.slot}" if row.slot else ""), style="cyan")
    name = Text(one_line(row.candidate, limit=40))
    if row.result is not None:
        stage = Text(verdict_cell(row.result), style=STYLES[row.result.status])
    else:
        words = f"out: {one_line(row.out)}" if row.out else row.stage.value
        stage = Text(words, style="bold" if row.slot or row.host else "dim")
    waiting = row.stage in {Stage.SUBMITTED, Stage.PREPARING, Stage.QUEUED}
    return slot, name, stage, Text("" if waiting else f"{row.elapsed(now):.1f} s", style="dim")
