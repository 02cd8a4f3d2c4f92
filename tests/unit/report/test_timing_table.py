from __future__ import annotations

import io
import unicodedata
from dataclasses import replace

import pytest
from effort import drawn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from result_strategies import HOSTILE, run_results
from rich.console import Console

from codeflash_parallel.report.console import Detail, print_candidate, print_report
from codeflash_parallel.report.markdown import markdown, timings_markdown
from codeflash_parallel.report.timing_table import (
    candidate_timings,
    footer,
    host_words,
    machinery_rows,
    run_rows,
    run_timings,
    timing_rows,
)
from codeflash_parallel.result.candidate_model import CandidateId, CandidateOrigin
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Verdict
from codeflash_parallel.result.result_model import STEPS, CandidateResult, HostUse, RunResult, TestCounts

relaxed = settings(max_examples=drawn(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
SPENT = dict(zip(STEPS, (120.4, 1.5, 8.25, 0.0, 30.0, 81.0, 0.0, 0.01, 0.0, 19.0), strict=True))


def checked(name: str, served: str = "imported", why: str = "", **more) -> CandidateResult:
    more.setdefault("timings_ms", SPENT)
    return CandidateResult(
        id=CandidateId(name), origin=CandidateOrigin.PATCH, status=CandidateStatus.UNDECIDED, code=Code.NOT_RACED, reason="So.",
        served=served, served_why=why, **more,
    )  # fmt: skip


def run_of(*candidates: CandidateResult, **more) -> RunResult:
    everything = {step: sum(c.timings_ms.get(step, 0) for c in candidates) for step in STEPS}
    fields = {"run_id": "r", "complete": True, "verdict": Verdict.NOTHING_FASTER, "steps_ms": everything}
    return RunResult(candidates=candidates, **(fields | more))


def rendered(parts, width: int) -> str:
    console = Console(file=io.StringIO(), width=width, markup=False, emoji=False, highlight=False)
    for part in parts:
        console.print(part)
    return console.file.getvalue()


def report_of(result: RunResult, detail: Detail = Detail.NORMAL) -> str:
    console = Console(file=io.StringIO(), width=100, markup=False, emoji=False, highlight=False)
    print_report(result, console, detail)
    return console.file.getvalue()


def test_the_footer_divides_the_time_that_slots_were_held() -> None:
    steps = dict.fromkeys(STEPS, 0.0) | {"queue": 1e6, "calls": 81.0, "stage": 4.0, "other": 15.0}
    assert footer(RunResult(run_id="r", complete=True, steps_ms=steps)) == "tests 81 %, overhead 19 %"


@pytest.mark.parametrize("steps", [{}, {"queue": 5.0}, dict.fromkeys(STEPS, 0.0)])
def test_where_nothing_ran_there_is_no_footer(steps: dict) -> None:
    result = RunResult(run_id="r", complete=True, verdict=Verdict.NONE_CORRECT, steps_ms=steps)
    assert footer(result) == ""
    assert "overhead" not in report_of(result)
    assert "overhead" not in markdown(result)


@given(st.dictionaries(st.sampled_from(list(STEPS)), st.floats(0, 1e9)))
def test_the_shares_are_shares(steps: dict[str, float]) -> None:
    said = footer(RunResult(run_id="r", complete=True, steps_ms=steps))
    if said:
        tests, overhead = (int(part.split()[1]) for part in said.split(", "))
        assert tests + overhead == 100
        assert 0 <= tests <= 100


def test_every_report_but_the_quiet_one_has_the_footer() -> None:
    result = run_of(checked("a"), checked("b"))
    assert "tests 58 %, overhead 42 %" in report_of(result)
    assert "tests 58 %, overhead 42 %" in report_of(result, Detail.VERBOSE)
    assert "overhead" not in report_of(result, Detail.QUIET)
    assert markdown(result).endswith("tests 58 %, overhead 42 %\n")


def test_a_row_has_every_step_and_their_sum() -> None:
    assert timing_rows([checked("a")]) == [
        ["candidate", "served", *(step for step in STEPS if step not in {"evidence", "confirm"}), "total"],
        ["a", "imported", "120", "1.5", "8.2", "-", "30", "81", "-", "19", "260"],
    ]


def test_steps_that_few_runs_have_get_a_column_where_somebody_has_them() -> None:
    raced = checked("b", timings_ms=SPENT | {"confirm": 400.0})
    header, first, second, everyone = run_rows(run_of(checked("a"), raced))
    assert "evidence" not in header
    confirm = header.index("confirm")
    assert (first[confirm], second[confirm], everyone[confirm]) == ("-", "400", "400")


def test_who_never_held_a_slot_has_no_row() -> None:
    result = run_of(
        checked("a", timings_ms={}, served=""), checked("b", timings_ms={"queue": 0.0}, served="")
    )
    assert timing_rows(result.candidates) == []
    assert rendered(run_timings(result), 80) == ""
    assert timings_markdown(result) == ""


def test_each_reason_is_said_once() -> None:
    everyone = [
        checked("a"),
        checked("b"),
        *(checked(f"x{n}", "new-process", "a thread: w") for n in range(3)),
    ]
    everyone += [checked("c", "new-process", "a hook"), checked("d", "collected"), checked("e", "")]
    assert machinery_rows(run_of(*everyone)) == [
        ("served", "collected (1)"), ("served", "imported (2)"),
        ("served", "new-process (3): a thread: w"), ("served", "new-process (1): a hook"),
    ]  # fmt: skip


def test_phases_and_what_was_waited() -> None:
    timings = {"snapshot": 240.0, "behavior": 1250.0, "waited": 3000.0, "total": 4490.0}
    rows = machinery_rows(run_of(checked("a"), timings=timings))
    assert rows[0] == ("seconds", "snapshot 0.2, behavior 1.2, waited 3.0, total 4.5")


def test_slots_and_servers() -> None:
    result = run_of(
        checked("a"),
        slots={"kind": "reflink", "bytes": 3 * 2**19, "inodes": 12},
        warm={"servers": 2, "forks": 18, "restarts": 1, "unfit": ["a thread was started: \x1b[2J"]},
    )
    assert machinery_rows(result) == [
        ("served", "imported (1)"),
        ("slots", "reflink, each 1.5 MiB and 12 inodes"),
        ("servers", "2, forks 18, restarts 1"),
        ("unfit", "a thread was started: \\x1b[2J"),
    ]


@pytest.mark.parametrize("width", [80, 120])
def test_a_table_of_steps_is_one_line_a_candidate(width: int) -> None:
    slow = dict.fromkeys(STEPS, 12345.0)
    shown = rendered(run_timings(run_of(checked("kahn"), checked("cached", timings_ms=slow))), width)
    lines = shown.splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["name", "kahn", "cached", "all"]
    assert all(len(line.split()) == 13 for line in lines[1:3])


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 200])
def test_timings_fit(width: int) -> None:
    result = run_of(
        checked("a" * 70), checked("b", "new-process", "word " * 40), warm={"unfit": ["why " * 50]}
    )
    assert max(map(len, rendered(run_timings(result), width).splitlines())) <= width


def test_verbose_says_where_each_was_served() -> None:
    result = run_of(checked("a"), checked("b", "new-process", "a thread was started: worker"))
    assert "a thread was started: worker" in report_of(result, Detail.VERBOSE)
    assert "a thread was started: worker" not in report_of(result)


def test_one_candidate_in_full() -> None:
    one = checked("a", "new-process", "a hook", tests=TestCounts(expected=9, failed=1, not_run=8))
    console = Console(file=io.StringIO(), width=100)
    print_candidate(one, console, appendix=candidate_timings(one))
    shown = console.file.getvalue()
    assert "tests not started after that: 8" in shown
    assert "served new-process: a hook" in shown.splitlines()
    assert "260" in shown


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (HostUse(host="h1"), "Host h1: "),
        (
            HostUse(
                host="h1", environment="CPython 3.11", checked=(CandidateId("a"), CandidateId("b")), shards=1
            ),
            "Host h1: 2 checked in 1 job; CPython 3.11",
        ),
        (HostUse(host="h1", environment="CPython 3.11", raced=True), "Host h1: held the race; CPython 3.11"),
        (HostUse(host="a\nb", left_out="It has\nno room."), "Host a b: left out: It has no room."),
    ],
)
def test_what_a_host_has_done_is_one_line(use: HostUse, words: str) -> None:
    assert host_words(use) == words


def test_a_report_names_the_hosts_of_its_run() -> None:
    result = replace(run_of(checked("a")), hosts=(HostUse(host="node7", raced=True),))
    stream = io.StringIO()
    print_report(result, Console(file=stream, width=120), Detail.VERBOSE)
    assert "Host node7: held the race" in stream.getvalue()


def test_markdown_has_the_table_and_the_reasons() -> None:
    result = run_of(checked("a|b"), checked("c", "new-process", "<b>why</b>"), warm={"servers": 2})
    shown = timings_markdown(result)
    assert shown.splitlines()[0].startswith("| candidate | served | queue | stage |")
    assert "| a\\|b | imported | 120 |" in shown
    assert "- served: new-process \\(1\\): \\<b\\>why\\</b\\>" in shown
    assert "- servers: 2, forks 0, restarts 0" in shown


@relaxed
@given(run_results(), st.sampled_from([40, 80, 120]))
def test_whatever_a_result_holds_only_draws(result: RunResult, width: int) -> None:
    shown = rendered(run_timings(result), width) + timings_markdown(result)
    assert all(c == "\n" or unicodedata.category(c) not in {"Cc", "Cf", "Cs", "Zl", "Zp"} for c in shown)


@pytest.mark.parametrize("attack", HOSTILE)
def test_hostile_names_and_reasons_are_harmless(attack: str) -> None:
    result = run_of(checked(attack, "new-process", attack), warm={"unfit": [attack]})
    shown = rendered(run_timings(result), 80) + report_of(result, Detail.VERBOSE)
    assert all(c == "\n" or unicodedata.category(c) not in {"Cc", "Cf", "Cs", "Zl", "Zp"} for c in shown)
