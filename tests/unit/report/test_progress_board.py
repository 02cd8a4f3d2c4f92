"""A run that waits for somebody else on the machine says so, wherever its progress is shown."""

from __future__ import annotations

import io
import json
from dataclasses import replace

from rich.console import Console

from codeflash_parallel.report.json_lines import JsonLines
from codeflash_parallel.report.progress_board import LiveBoard, PlainLines
from codeflash_parallel.result.candidate_model import CandidateId
from codeflash_parallel.result.events import CandidateMoved, PhaseStarted, RunWaits, Stage

WAITS, GOES_ON = RunWaits(run_id="r", why="something is timed"), RunWaits(run_id="r", why="")


def board_on(stream: io.StringIO) -> Console:
    return Console(file=stream, width=100)


def test_as_lines():
    stream = io.StringIO()
    lines = PlainLines(board_on(stream), lambda: 0.0)
    lines(WAITS), lines(GOES_ON)
    assert stream.getvalue().splitlines() == ["waits: something is timed", "continues"]


def test_on_the_board():
    board = LiveBoard(board_on(io.StringIO()), lambda: 0.0)
    shown = []
    for event in (PhaseStarted(run_id="r", phase="behavior"), WAITS, GOES_ON):
        board(event)
        out = io.StringIO()
        board_on(out).print(board.render())
        shown.append("waits: something is timed  " in out.getvalue())
    board.close()
    assert shown == [False, True, False]


def test_the_board_shows_the_host_that_checks_a_candidate():
    board = LiveBoard(board_on(io.StringIO()), lambda: 0.0)
    shown = []
    for stage, host in ((Stage.CHECKING, "node7"), (Stage.PASSED, "")):
        board(CandidateMoved(run_id="r", candidate=CandidateId("a"), stage=stage, host=host))
        out = io.StringIO()
        board_on(out).print(board.render())
        shown.append("node7" in out.getvalue())
    board.close()
    assert shown == [True, False]


def test_lines_name_the_host_that_checks_a_candidate():
    stream = io.StringIO()
    lines = PlainLines(board_on(stream), lambda: 0.0)
    moved = CandidateMoved(run_id="r", candidate=CandidateId("a"), stage=Stage.CHECKING, host="node7")
    lines(moved), lines(replace(moved, host="", slot=2))
    assert stream.getvalue().splitlines() == ["start a on node7", "start a slot 2"]


def test_beside_a_race_the_board_is_drawn_when_something_happens_and_never_by_itself():
    stream = io.StringIO()
    console = Console(file=stream, width=100, force_terminal=True, color_system=None)
    board = LiveBoard(console, lambda: 0.0)
    board(PhaseStarted(run_id="r", phase="race"))
    assert not board._live.auto_refresh
    drawn = len(stream.getvalue())
    board(WAITS)
    assert "waits: something is timed" in stream.getvalue()[drawn:]
    board.close()


def test_as_events():
    stream = io.StringIO()
    JsonLines(stream)(WAITS)
    line = json.loads(stream.getvalue())
    assert (line["event"], line["why"]) == ("run_waits", "something is timed")
