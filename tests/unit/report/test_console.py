from __future__ import annotations

import io
import re
import time
import unicodedata
from dataclasses import asdict, replace

import pytest
from effort import drawn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from result_strategies import HOSTILE, run_results
from rich.console import Console

from codeflash_parallel.report.columns import duration
from codeflash_parallel.report.console import Detail, make_console, print_report
from codeflash_parallel.report.progress_board import LiveBoard, PlainLines, open_board
from codeflash_parallel.result.candidate_model import CandidateId, CandidateOrigin
from codeflash_parallel.result.events import (
    CandidateFinished,
    CandidateMoved,
    PhaseStarted,
    RunFinished,
    RunStarted,
    Stage,
    Warned,
)
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, FlagKind, Level, Verdict
from codeflash_parallel.result.result_model import (
    CandidateResult,
    FailedTest,
    FirstDifference,
    Flag,
    GroupSpeedup,
    LineProfile,
    LineTiming,
    RaceFigures,
    RunFault,
    RunResult,
    Speedup,
    TestCounts,
    ValueCounts,
)

relaxed = settings(max_examples=drawn(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
TESTS = TestCounts(expected=42, passed=42)
VALUES = ValueCounts(compared=311, level=Level.CAPTURED)
PROFILE = LineProfile(
    tracer="sys.settrace",
    lines=tuple(
        LineTiming(path="m.py", line=n, hits=n, time_ns=n * 1000, text=f"    x{n} = {n}") for n in range(3)
    ),
)


def judged(name: str, status: CandidateStatus, code: Code, **more) -> CandidateResult:
    more.setdefault("reason", f"Reason of {name}.")
    return CandidateResult(
        id=CandidateId(name), origin=CandidateOrigin.PATCH, status=status, code=code, **more
    )


def sample(**more) -> RunResult:
    fast = Speedup(estimate=2.314, low=2.25, high=2.38, stage="confirmation")
    some = Speedup(estimate=1.62, low=1.55, high=1.7)
    difference = FirstDifference(
        target="m.py::f", test="t.py::t", call=17, inputs="([1],)", expected="[1, 2]", got="[2, 1]"
    )
    failure = FailedTest(id="t.py::deep", phase="call", message="E  RecursionError: too deep")
    everyone = (
        judged(
            "kahn",
            CandidateStatus.WON,
            Code.OK,
            tests=TESTS,
            values=VALUES,
            speedup=fast,
            diff="--- a\n+++ b\n-old\n+new\n",
        ),
        judged("cached", CandidateStatus.LOST, Code.BEATEN, tests=TESTS, values=VALUES, speedup=some),
        judged(
            "fixed",
            CandidateStatus.LOST,
            Code.NOT_FASTER,
            lineage=(CandidateId("deep"),),
            parent=CandidateId("deep"),
        ),
        judged(
            "unsorted",
            CandidateStatus.REJECTED,
            Code.VALUE_DIFFERS,
            difference=difference,
            reproduce="run this",
        ),
        judged("deep", CandidateStatus.REJECTED, Code.TESTS_FAILED, failures=(failure,)),
    )
    fields = {
        "run_id": "r1",
        "complete": True,
        "verdict": Verdict.WINNER,
        "winner": CandidateId("kahn"),
        "candidates": everyone,
        "winner_profile": PROFILE,
        "baseline_profile": PROFILE,
        "summary": "kahn is 2.31 times as fast.",
    }
    return RunResult(**(fields | more))


def rendered(result: RunResult, width: int, detail: Detail = Detail.NORMAL, *, colour: bool = False) -> str:
    stream = io.StringIO()
    console = Console(
        file=stream, width=width, markup=False, emoji=False, highlight=False, force_terminal=colour
    )
    print_report(result, console, detail)
    return stream.getvalue()


@pytest.mark.parametrize("width", [80, 100, 120, 160])
def test_the_report_fits_and_says_what_matters(width: int) -> None:
    shown = rendered(sample(), width)
    assert max(map(len, shown.splitlines())) <= width
    for word in (
        "kahn",
        "won",
        "lost BEATEN",
        "rejected VALUE_DIFFERS",
        "42/42",
        "311/311",
        "2.31x",
        "2.25",
        "2.38",
    ):
        assert word in shown
    for word in (
        "Reason of cached.",
        "+new",
        "baseline",
        "hits",
        "winner: kahn is 2.31 times as fast.",
        "apply r1",
    ):
        assert word in shown
    assert "of deep" in shown


def test_lines_of_a_file_are_not_padded() -> None:
    stream = io.StringIO()
    print_report(sample(), make_console(stream), Detail.VERBOSE)
    assert [line for line in stream.getvalue().splitlines() if line.endswith(" ")] == []


@pytest.mark.parametrize("width", [20, 40, 60])
def test_a_narrow_report_still_fits(width: int) -> None:
    assert max(map(len, rendered(sample(), width).splitlines())) <= width


@pytest.mark.parametrize("width", [80, 120])
def test_a_table_row_is_one_line(width: int) -> None:
    lines = rendered(sample(), width).splitlines()
    assert [line.split()[0] for line in lines[3:8]] == ["kahn", "cached", "fixed", "unsorted", "deep"]


def test_profiles_stand_side_by_side_where_there_is_room() -> None:
    assert any(line.count("source") == 2 for line in rendered(sample(), 120).splitlines())
    assert not any(line.count("source") == 2 for line in rendered(sample(), 80).splitlines())


def raced(**more) -> RaceFigures:
    cpu = Speedup(estimate=2.314, low=2.25, high=2.38, stage="confirmation")
    wall = Speedup(estimate=2.2, low=1.9, high=2.5, clock="wall", stage="confirmation")
    fields = {"stage": "confirmation", "rounds": 12, "cpu": cpu, "wall": wall, "seen": 2.29, "unseen": 2.33}
    fields |= {"peak_bytes": 3 * 2**20, "baseline_peak_bytes": 2**20}
    return RaceFigures(**(fields | {"calls_per_s": 23140.0, "baseline_calls_per_s": 10000.0} | more))


@pytest.mark.parametrize("detail", [Detail.NORMAL, Detail.VERBOSE])
def test_everything_that_was_measured_of_the_winner_is_told(detail: Detail) -> None:
    kahn, cached, *others = sample().candidates
    kahn = replace(
        kahn, race=raced(), group_speedups=(GroupSpeedup(group="t.py::heavy", **asdict(kahn.speedup)),)
    )
    cached = replace(cached, race=raced(stage="race", dropped="another is faster", dropped_after=6))
    shown = rendered(sample(candidates=(kahn, cached, *others)), 200, detail)
    for words in (
        "timed: 12 rounds of the confirmation",
        "clocks: CPU 2.31x (2.25-2.38), wall 2.20x (1.90-2.50); cpu time decides",
        "inputs: the tests' calls 2.29x, unseen 2.33x",
        "memory: grows by 3.0 MiB at its peak, the baseline by 1.0 MiB",
        "throughput: 23,140 calls a second, the baseline 10,000",
        "t.py::heavy: 2.31x (2.25-2.38)",
    ):
        assert words in shown
    dropped = {
        Detail.NORMAL: "lost: Reason of cached. (Dropped after 6 rounds of the race.)",
        Detail.VERBOSE: "dropped after 6 of them: another is faster",
    }
    assert dropped[detail] in shown


def test_the_tests_of_a_group_are_named() -> None:
    light = {"group": "12 tests", "share": 0.25, "tests": [f"t.py::light[{n}]" for n in range(12)]}
    alone = {"group": "t.py::heavy", "share": 0.75, "tests": ["t.py::heavy"]}
    race = {"timed": "2 calls, because", "rounds": 1, "void": 0, "seconds": 1.0, "unit_sd": None}
    shown = " ".join(rendered(sample(race=race | {"groups": [alone, light]}), 200, Detail.VERBOSE).split())
    assert "12 tests: 25 % of the time: t.py::light[0], t.py::light[1]," in shown
    assert "t.py::light[9], ..." in shown
    assert "timed: 2 calls, because; 1 round in 1.0 s" in shown
    assert "75 %" not in shown


def test_a_race_that_was_not_held_is_no_noise() -> None:
    waits = judged("waits", CandidateStatus.UNDECIDED, Code.RACE_NOT_HELD)
    shown = rendered(
        sample(winner=None, candidates=(waits,), verdict=Verdict.TOO_NOISY, summary="It waits."), 80
    )
    assert "not raced: It waits." in shown


@pytest.mark.parametrize("detail", [Detail.NORMAL, Detail.VERBOSE])
def test_the_verdict_comes_first_then_the_table_the_reasons_and_the_diff(detail: Detail) -> None:
    shown = rendered(sample(), 120, detail)
    words = ("winner: kahn is", "candidate", "Reason of cached.", "+new", "hits", "apply r1")
    places = [shown.index(word) for word in words]
    assert places[0] == 0
    assert places == sorted(places)


def test_diffs_and_profiles_are_shortened_unless_everything_is_asked_for() -> None:
    long = LineProfile(
        tracer="t",
        lines=tuple(LineTiming(path="m.py", line=n, hits=1, time_ns=n, text="x") for n in range(50)),
    )
    kahn = replace(sample().candidates[0], diff="".join(f"+{n}\n" for n in range(70)), diff_path="k.diff")
    result = sample(candidates=(kahn,), winner_profile=long, baseline_profile=None)
    assert "... 10 more lines: k.diff" in rendered(result, 80)
    assert "... 10 colder lines" in rendered(result, 80)
    assert "..." not in rendered(result, 80, Detail.VERBOSE)


def test_quiet_is_the_verdict_only() -> None:
    assert rendered(sample(), 80, Detail.QUIET) == "winner: kahn is 2.31 times as fast.\n"


def test_verbose_tells_failures_and_differences() -> None:
    shown = rendered(sample(), 80, Detail.VERBOSE)
    for word in ("RecursionError: too deep", "inputs", "([1],)", "[2, 1]", "run this"):
        assert word in shown


@pytest.mark.parametrize("verdict", [v for v in Verdict if v not in {Verdict.WINNER, Verdict.TIE}])
def test_every_verdict_has_a_sentence(verdict: Verdict) -> None:
    shown = rendered(RunResult(run_id="r", complete=True, verdict=verdict), 80)
    assert shown.startswith(verdict.value.replace("_", " ") + ": ")
    assert "apply" not in shown


def test_an_error_is_told_with_its_hint() -> None:
    fault = RunFault(family="environment", code="RED_BASELINE", message="3 tests fail.", hint="Mend them.")
    assert "error: 3 tests fail. Mend them." in rendered(
        RunResult(run_id="r", complete=False, error=fault), 80
    )


@relaxed
@given(run_results(), st.sampled_from([40, 80, 120]), st.sampled_from(Detail))
def test_whatever_a_result_holds_only_draws(result: RunResult, width: int, detail: Detail) -> None:
    shown = rendered(result, width, detail)
    assert all(c == "\n" or unicodedata.category(c) not in {"Cc", "Cf", "Cs", "Zl", "Zp"} for c in shown)


@pytest.mark.parametrize("attack", HOSTILE)
def test_with_colours_the_only_escapes_are_ours(attack: str) -> None:
    hostile = judged(
        attack, CandidateStatus.WON, Code.OK, reason=attack, diff=f"+{attack}\n", diff_path=attack
    )
    other = judged(f"b{attack}", CandidateStatus.LOST, Code.BEATEN, reason=attack, explanation=attack)
    result = sample(
        candidates=(hostile, other), winner=CandidateId(attack), summary=attack, warnings=(attack,)
    )
    shown = rendered(result, 80, Detail.VERBOSE, colour=True)
    rest = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert all(c == "\n" or unicodedata.category(c) not in {"Cc", "Cf", "Cs", "Zl", "Zp"} for c in rest)
    if attack.startswith("[bold]"):
        assert attack in rest
    if "31m" in attack:
        assert "\\x1b[31mred" in rest


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    stream = io.StringIO()
    print_report(sample(), make_console(stream), Detail.NORMAL)
    assert "\x1b" not in stream.getvalue()


@pytest.mark.parametrize(
    ("nanoseconds", "shown"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (1500, "1.5 us"),
        (999_999, "1000 us"),
        (62_000_000, "62 ms"),
        (5e12, "5000 s"),
    ],
)
def test_durations(nanoseconds: float, shown: str) -> None:
    assert duration(nanoseconds) == shown


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.5
        return self.now


EVENTS = (
    RunStarted(run_id="r", slots=2),
    PhaseStarted(run_id="r", phase="behavior", detail="3 candidates"),
    CandidateMoved(run_id="r", candidate=CandidateId("a\x1b[2J"), stage=Stage.CHECKING, slot=1),
    CandidateMoved(run_id="r", candidate=CandidateId("b"), stage=Stage.QUEUED),
    CandidateMoved(run_id="r", candidate=CandidateId("c"), stage=Stage.CHECKING, slot=2),
    Warned(run_id="r", message="careful \x1b[31m"),
    CandidateFinished(
        run_id="r", candidate=CandidateId("c"), result=judged("c", CandidateStatus.REJECTED, Code.TIMEOUT)
    ),
)


def test_plain_lines() -> None:
    stream = io.StringIO()
    lines = PlainLines(make_console(stream), Clock())
    for event in (*EVENTS, EVENTS[-1], RunFinished(run_id="r", result=sample())):
        lines(event)
    shown = stream.getvalue().splitlines()
    assert shown[:4] == [
        "behavior 3 candidates",
        "start a\\x1b[2J slot 1",
        "start c slot 2",
        "warning: careful \\x1b[31m",
    ]
    assert re.fullmatch(r"finish c rejected TIMEOUT \d+\.\d s", shown[4])
    assert len(shown) == 5


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_live_board_draws_everyone_and_nothing_hostile(width: int) -> None:
    console = Console(file=io.StringIO(), width=width, height=20, force_terminal=True, markup=False)
    board = LiveBoard(console, Clock())
    for event in EVENTS:
        board(event)
    board.close()
    plain = Console(file=io.StringIO(), width=width)
    plain.print(board.render())
    shown = plain.file.getvalue()
    assert max(map(len, shown.splitlines())) <= width
    assert "\x1b" not in shown
    for word in ("behavior 3 candidates", "slot 1", "checking", "queued", "rejected TIMEOUT"):
        assert word in shown


def test_the_live_board_is_still_during_a_race() -> None:
    stream = io.StringIO()
    board = LiveBoard(Console(file=stream, width=80, height=20, force_terminal=True), Clock())
    for event in (*EVENTS, PhaseStarted(run_id="r", phase="race")):
        board(event)
    before = stream.getvalue()
    time.sleep(0.6)  # some frames of a board that draws by itself
    assert stream.getvalue() == before
    board.close()


def test_many_candidates_never_scroll() -> None:
    console = Console(file=io.StringIO(), width=80, height=10, force_terminal=True)
    board = LiveBoard(console, Clock())
    for n in range(50):
        board(CandidateMoved(run_id="r", candidate=CandidateId(f"c{n}"), stage=Stage.QUEUED))
    board.close()
    plain = Console(file=io.StringIO(), width=80)
    plain.print(board.render())
    assert len(plain.file.getvalue().splitlines()) <= 10


def test_a_stream_that_is_no_terminal_gets_lines() -> None:
    stream = io.StringIO()
    with open_board(stream) as board:
        board(EVENTS[1])
    assert stream.getvalue() == "behavior 3 candidates\n"


def flagged(name: str, *constructs: str) -> CandidateResult:
    flags = tuple(
        Flag(kind=FlagKind.FRAMES, what=what, path="m.py", line=n) for n, what in enumerate(constructs)
    )
    return judged(name, CandidateStatus.LOST, Code.NOT_FASTER, flags=flags)


def test_one_line_says_whose_code_is_worth_a_closer_look() -> None:
    many = [flagged(f"c{n}", "a", "b", "c", "d") for n in range(5)]
    everyone = (
        judged("plain", CandidateStatus.UNDECIDED, Code.NOT_RACED),
        flagged("odd", "sys._getframe"),
        *many,
    )
    shown = rendered(sample(winner=None, candidates=everyone, verdict=Verdict.NOTHING_FASTER), 2_000)
    (line,) = [line for line in shown.splitlines() if "review" in line]
    assert "odd adds sys._getframe (frames, m.py)" in line
    assert "c0 adds a (frames, m.py), b (frames, m.py:1), c (frames, m.py:2) and 1 more" in line
    assert line.rstrip().endswith("; 3 more add such things")
    assert "plain adds" not in line
    assert "d (frames, m.py:3)" in rendered(
        sample(candidates=(*sample().candidates, *many)), 200, Detail.VERBOSE
    )


def test_where_nothing_is_flagged_nothing_is_said_of_it() -> None:
    assert "review" not in rendered(sample(), 120)


def test_hints_are_for_a_review_and_only_of_who_was_not_rejected() -> None:
    found = (
        judged("scratch", CandidateStatus.LOST, Code.NOT_FASTER, hints=("It sorts.", "It draws.")),
        judged("wrong", CandidateStatus.REJECTED, Code.VALUE_DIFFERS, hints=("It sleeps.",)),
    )
    shown = rendered(sample(candidates=found), 120)
    assert "review (not rejected): scratch: It sorts. It draws." in shown
    assert "sleeps" not in shown
    assert shown.count("review (not rejected)") == 1


def test_where_no_values_were_compared_the_report_says_why() -> None:
    values = ValueCounts(
        level=Level.TESTS, uncaptured={"a function that has no name": 1, "a lock": 2}, unstable=3
    )
    alone = judged("same", CandidateStatus.UNDECIDED, Code.NOT_RACED, tests=TESTS, values=values)
    rejected = judged("other", CandidateStatus.REJECTED, Code.TESTS_FAILED, values=values)
    said = rendered(sample(candidates=(rejected, alone)), 160)
    why = "1 call: a function that has no name; 2 calls: a lock; 3 calls: they differ from replay to replay"
    assert said.count(f"tests only, no values were compared: {why}") == 1
    assert "tests only" not in rendered(sample(candidates=(rejected,)), 160)
    some = replace(alone, values=replace(values, level=Level.CAPTURED))
    partly = rendered(sample(candidates=(some,)), 160)
    assert "tests only" not in partly
    assert f"not compared: {why}" in partly
