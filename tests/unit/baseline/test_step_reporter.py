"""A run says which step it is at and how much of it is done, wherever its progress is shown."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from codeflash_parallel.baseline.preflight import must_have_ended
from codeflash_parallel.baseline.step_reporter import StepReporter
from codeflash_parallel.check.session.runner_report import RunnerReport
from codeflash_parallel.check.session.runner_report import TestOutcome as OneTest
from codeflash_parallel.check.session.runner_session import RunnerSession
from codeflash_parallel.report.json_lines import JsonLines
from codeflash_parallel.report.progress_board import LiveBoard, PlainLines
from codeflash_parallel.result.candidate_model import CandidateId
from codeflash_parallel.result.errors import EnvironmentFault
from codeflash_parallel.result.events import CandidateMoved, PhaseStarted, RaceProgress, Stage, StepChanged
from codeflash_parallel.result.outcome_codes import ExitKind
from codeflash_parallel.result.runtime_protocols import ProcessExit

RECORDS = b"".join(
    json.dumps(record).encode() + b"\n"
    for record in (
        {"t": "hello"},
        {"t": "collected", "ids": ["a", "b", "c"]},
        {"t": "passed", "id": "a", "ns": [1, 1, 1]},
        {"t": "phase", "id": "b", "when": "call", "outcome": "failed"},
        {"t": "phase", "id": "b", "when": "teardown", "outcome": "passed"},
    )
)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_tests_are_counted_in_records_however_these_are_cut(size):
    told = []
    watch = StepReporter(told.append, "r").tests("first run of the tests")
    for start in range(0, len(RECORDS), size):
        watch(RECORDS[start : start + size])
    watch(b"")
    assert told[0] == StepChanged(run_id="r", step="first run of the tests")
    assert all(event.step == "first run of the tests" for event in told)


def test_the_count_is_that_of_finished_tests(monkeypatch):
    monkeypatch.setattr("codeflash_parallel.baseline.step_reporter._LEAST_S", 0.0)
    told = []
    StepReporter(told.append, "r").tests("first run of the tests")(RECORDS)
    assert (told[-1].done, told[-1].total) == (2, 3)


def test_calls_of_a_replay_are_counted(monkeypatch):
    monkeypatch.setattr("codeflash_parallel.baseline.step_reporter._LEAST_S", 0.0)
    told = []
    StepReporter(told.append, "r").calls("replay of captured calls", 9)(
        b'{"t": "call", "i": 1}\n{"t": "answer"}\n{"t'
    )
    assert (told[-1].done, told[-1].total) == (2, 9)


def test_as_lines_a_step_is_said_once_and_repeated_only_after_a_while():
    stream, now = io.StringIO(), [0.0]
    lines = PlainLines(Console(file=stream, width=100), lambda: now[0])
    for seconds, done in ((0.0, 0), (1.0, 5), (12.0, 40), (13.0, 41)):
        now[0] = seconds
        lines(StepChanged(run_id="r", step="first run of the tests", done=done, total=50))
    assert stream.getvalue().splitlines() == [
        "first run of the tests",
        "first run of the tests: 40 of 50, 12 s",
    ]


def test_on_the_board():
    board = LiveBoard(Console(file=io.StringIO(), width=100), lambda: 3.0)
    shown = []
    for event in (
        PhaseStarted(run_id="r", phase="baseline"),
        StepChanged(run_id="r", step="replay of captured calls", done=4, total=9),
        PhaseStarted(run_id="r", phase="behavior"),
    ):
        board(event)
        out = io.StringIO()
        Console(file=out, width=100).print(board.render())
        shown.append("replay of captured calls: 4 of 9, 0 s" in out.getvalue())
    board.close()
    assert shown == [False, True, False]


def test_as_events():
    stream = io.StringIO()
    JsonLines(stream)(StepChanged(run_id="r", step="replay of captured calls", done=4, total=9))
    line = json.loads(stream.getvalue())
    assert (line["event"], line["step"], line["done"], line["total"]) == (
        "step_changed",
        "replay of captured calls",
        4,
        9,
    )


def test_a_run_that_meets_its_deadline_names_the_test_that_it_hung_in():
    seen = {"a": OneTest(id="a", outcome="passed", ns=1, phase="", message="")}
    hung = RunnerSession(
        report=RunnerReport(collected=("a", "b", "c"), tests=seen),
        exit=ProcessExit(ended=ExitKind.WALL_DEADLINE, wall_ns=75_000_000_000),
    )
    with pytest.raises(EnvironmentFault) as raised:
        must_have_ended(hung, "second run of the tests", 1_500_000_000)
    assert raised.value.code == "BASELINE_TIMEOUT"
    assert "did not end within 75 s (the first run took 1.5 s): it hung in b." in raised.value.message


def test_a_run_that_ended_is_not_asked():
    must_have_ended(
        RunnerSession(report=RunnerReport(), exit=ProcessExit(ended=ExitKind.EXITED)),
        "first run of the tests",
    )


def race(rounds, leader, stage="race", **out):
    return RaceProgress(
        run_id="r",
        stage=stage,
        rounds=rounds,
        most_rounds=60,
        racing=3,
        leader=leader,
        speedup=1.5,
        seconds_left=20.0,
        out=out,
    )


def test_a_race_says_once_who_is_out_and_why():
    stream = io.StringIO()
    lines = PlainLines(Console(file=stream, width=100), lambda: 0.0)
    for event in (race(5, "a"), race(6, "a", b="others are ahead"), race(7, "a", b="others are ahead")):
        lines(event)
    assert stream.getvalue().splitlines() == [
        "race: round 5, 3 candidates, a leads with 1.50x, 20 s left at most",
        "out b: others are ahead",
    ]
    board = LiveBoard(Console(file=io.StringIO(), width=100), lambda: 0.0)
    for event in (
        CandidateMoved(run_id="r", candidate=CandidateId("b"), stage=Stage.RACING, slot=0),
        race(6, "a", b="others are ahead"),
    ):
        board._update(event)
    console = Console(file=io.StringIO(), width=100)
    console.print(board.render())
    assert "out: others are ahead" in console.file.getvalue()


def test_a_race_says_who_leads_and_says_so_again_after_a_while():
    stream, now = io.StringIO(), [0.0]
    lines = PlainLines(Console(file=stream, width=100), lambda: now[0])
    for seconds, event in (
        (0.0, race(1, None)),
        (0.5, race(2, "a")),
        (1.0, race(3, "a")),
        (4.0, race(9, "a")),
        (4.1, race(1, "a", "confirmation")),
    ):
        now[0] = seconds
        lines(event)
    assert stream.getvalue().splitlines() == [
        "race: round 1, 3 candidates, none leads, 20 s left at most",
        "race: round 2, 3 candidates, a leads with 1.50x, 20 s left at most",
        "race: round 9, 3 candidates, a leads with 1.50x, 20 s left at most",
        "confirmation: round 1, 3 candidates, a leads with 1.50x, 20 s left at most",
    ]


def test_what_goes_on_beside_a_step_is_told_only_when_it_is_all_that_goes_on(monkeypatch):
    monkeypatch.setattr("codeflash_parallel.baseline.step_reporter._LEAST_S", 0.0)
    told, is_alone = [], False
    steps = StepReporter(told.append, "r")
    steps.begin("second run of the tests")
    watch = steps.beside(lambda: is_alone).calls("replay of captured calls", 9)
    watch(b'{"t": "call", "i": 1}\n')
    assert [event.step for event in told] == ["second run of the tests"]
    is_alone = True
    watch(b'{"t": "call", "i": 2}\n')
    assert told[-1] == StepChanged(run_id="r", step="replay of captured calls", done=2, total=9)
