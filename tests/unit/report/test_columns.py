"""One list of columns for the terminal, Markdown and JUnit XML."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from codeflash_parallel.report import columns
from codeflash_parallel.report.columns import COLUMNS, STYLES, Column, speedup_cell
from codeflash_parallel.report.console import Detail, print_report
from codeflash_parallel.report.junit import junit_xml
from codeflash_parallel.report.markdown import markdown
from codeflash_parallel.result.candidate_model import CandidateId, CandidateOrigin
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Level, Verdict
from codeflash_parallel.result.result_model import (
    CandidateResult,
    RunResult,
    Speedup,
    TestCounts,
    ValueCounts,
)


def run_of(**more) -> RunResult:
    fields = {"status": CandidateStatus.LOST, "code": Code.BEATEN, "reason": "So."} | more
    one = CandidateResult(id=CandidateId("a"), origin=CandidateOrigin.PATCH, **fields)
    return RunResult(run_id="r", complete=True, verdict=Verdict.NOTHING_FASTER, candidates=(one,))


FULL = run_of(
    tests=TestCounts(expected=4, passed=3),
    values=ValueCounts(compared=5, derived=5, differing=1, level=Level.CAPTURED),
    speedup=Speedup(estimate=1.5, low=1.25, high=1.75),
    lineage=(CandidateId("x"), CandidateId("y")),
)


def on_terminal(result: RunResult, width: int) -> str:
    stream = io.StringIO()
    print_report(result, Console(file=stream, width=width), Detail.NORMAL)
    return stream.getvalue()


def test_the_cells_of_a_candidate() -> None:
    cells = {column.name: column.cell(FULL.candidates[0]) for column in COLUMNS}
    assert cells == {
        "candidate": "a",
        "verdict": "lost BEATEN",
        "tests": "3/4",
        "calls": "9/10",
        "speedup": "~1.50x (1.25-1.75)",
        "from": "patch of y < x",
    }


def test_every_report_has_the_columns() -> None:
    shown = {"terminal": on_terminal(FULL, 120), "markdown": markdown(FULL), "junit": junit_xml(FULL)}
    for name in ("tests", "calls", "speedup"):
        assert all(name in text for text in shown.values())
    assert (
        "| candidate | verdict | tests | calls | speedup |\n| --- | --- | ---: | ---: | --- |"
        in shown["markdown"]
    )
    assert 'name="calls" value="9/10"' in shown["junit"]


def test_a_new_column_is_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    more = (*COLUMNS, Column(name="attempts", cell=lambda c: f"{c.reason}!"))
    for module in ("console", "markdown", "junit"):
        monkeypatch.setattr(f"codeflash_parallel.report.{module}.COLUMNS", more)
    for text in (on_terminal(FULL, 120), markdown(FULL), junit_xml(FULL)):
        assert "attempts" in text
        assert "So.!" in text.replace("\\", "")


def test_what_has_nothing_to_say_is_no_property() -> None:
    text = junit_xml(run_of())
    assert 'name="status" value="lost"' in text
    assert 'name="speedup"' not in text
    assert 'name="tests"' not in text


def test_every_status_has_its_place_and_style() -> None:
    assert list(STYLES) == list(CandidateStatus)


@pytest.mark.parametrize(("gain", "shown"), [(2.314, "2.31x"), (23.14, "23.1x"), (231.4, "231x")])
def test_speedups_have_three_digits(gain: float, shown: str) -> None:
    assert speedup_cell(Speedup(estimate=gain, low=gain, high=gain, stage="confirmation")).startswith(shown)
    assert speedup_cell(None) == columns.NOTHING
