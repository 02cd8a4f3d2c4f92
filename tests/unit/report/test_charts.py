from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from result_strategies import speedups
from rich.console import Console

from codeflash_parallel.report.charts import (
    axis_of,
    bar,
    bars,
)
from codeflash_parallel.result.candidate_model import CandidateId, CandidateOrigin
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code
from codeflash_parallel.result.result_model import CandidateResult, RunResult, Speedup


def speedup(estimate: float, low: float, high: float, stage: str = "confirmation") -> Speedup:
    return Speedup(estimate=estimate, low=low, high=high, stage=stage)


def drawn(one: Speedup, width: int = 40) -> str:
    return bar(one, axis_of([one]), width)


@given(st.lists(speedups, min_size=1, max_size=6), st.integers(20, 120))
def test_a_bar_is_as_wide_as_its_axis_and_has_one_estimate(some, width) -> None:
    axis = axis_of(some)
    for one in some:
        text = bar(one, axis, width)
        assert len(text) == width
        assert text.count("o") == 1


@given(speedups, speedups, st.integers(20, 120))
def test_the_faster_is_never_drawn_to_the_left(one, other, width) -> None:
    axis = axis_of([one, other])
    slower, faster = sorted([one, other], key=lambda s: s.estimate)
    assert bar(slower, axis, width).index("o") <= bar(faster, axis, width).index("o")


def test_an_interval_beside_the_baseline_leaves_it_out() -> None:
    text = drawn(speedup(2.0, 1.7, 2.3))
    assert text.index("|") < text.index("[") < text.index("o") < text.index("]")


def test_an_interval_around_the_baseline_crosses_it() -> None:
    text = drawn(speedup(1.2, 0.6, 1.9))
    assert "|" not in text
    assert text.index("[") < text.index("+") < text.index("o") < text.index("]")


def test_an_interval_that_tells_little_goes_on_beyond_the_axis() -> None:
    text = drawn(speedup(1.1, 0.01, 90.0))
    assert text.startswith("<")
    assert text.endswith(">")


def result(*some: CandidateResult) -> RunResult:
    return RunResult(run_id="r", complete=True, candidates=some)


def candidate(name: str, gain: Speedup | None) -> CandidateResult:
    return CandidateResult(
        id=CandidateId(name),
        origin=CandidateOrigin.PATCH,
        status=CandidateStatus.LOST,
        code=Code.OK,
        reason="So.",
        speedup=gain,
    )


def printed(run: RunResult, width: int) -> list[str]:
    stream = io.StringIO()
    Console(file=stream, width=width, color_system=None).print(bars(run, width))
    return stream.getvalue().splitlines()


@pytest.mark.parametrize("width", [50, 80, 200])
def test_the_chart_fits_the_terminal_and_leaves_out_who_was_not_timed(width) -> None:
    run = result(
        candidate("quick", speedup(2.0, 1.9, 2.1)), candidate("a" * 70, speedup(0.5, 0.4, 0.7, "race")),
        candidate("wrong", None),
    )  # fmt: skip
    lines = printed(run, width)
    assert [line.split()[0][:5] for line in lines] == ["basel", "quick", "aaaaa"]
    assert all(len(line) <= width for line in lines)


def test_no_chart_without_room_or_figures() -> None:
    assert bars(result(candidate("a", None)), 80) is None
    assert bars(result(candidate("a", speedup(2, 1.9, 2.1))), 25) is None


@pytest.mark.parametrize("times", [99.4, 99.7, 1234.0])
def test_large_gains_are_written_out(times) -> None:
    (_, high) = axis_of([speedup(times, times / 1.1, times)])
    lines = printed(result(candidate("a", speedup(times, times / 1.1, times))), 80)
    assert lines[0].rstrip().endswith(f"{high:.0f}x")
    assert "".join(lines).isascii()
