"""Plots: places on the axis, what is cut, and a file that is XML."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from page_cases import ATTACKS, RUNS, TRACE, fast, hostile, judged, many, many_trace, run_of

from codeflash_parallel.report.page.plots import (
    MOST_ARMS,
    exclusive_sections,
    file_of,
    speedup_plot,
    timeline_plot,
)
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Verdict
from codeflash_parallel.result.result_model import Speedup
from codeflash_parallel.run.run_trace import ArmRounds, StageSpan, spans_of


def percent(text: str) -> float:
    return float(text.removesuffix("%"))


def test_an_interval_with_its_rounds_stands_beside_the_baseline() -> None:
    plot = ET.fromstring(speedup_plot(RUNS["winner"], TRACE.rounds))
    one = next(line for line in plot.iter("line") if line.attrib["class"] == "one")
    best, slower = plot.findall("g")
    assert [best.attrib["class"], slower.attrib["class"]] == ["good", "bad"]
    low, high = (percent(best.find("line[@class='span']").attrib[x]) for x in ("x1", "x2"))
    assert percent(one.attrib["x1"]) < low < high <= 98
    dots = [percent(dot.attrib["cx"]) for dot in best.findall("circle[@class='dot']")]
    rings = [percent(ring.attrib["cx"]) for ring in best.findall("circle[@class='ring']")]
    assert low < dots[0] < dots[1] < high
    assert rings[1] == 98  # a round far beyond the axis is drawn on its end
    assert "best 2.50x (2.25-2.75)" in plot.findtext("desc", "")


def test_nothing_that_was_timed_is_no_plot() -> None:
    assert speedup_plot(RUNS["all rejected"], {}) == ""
    assert timeline_plot([], frozenset()) == ""


@pytest.mark.parametrize(
    ("times", "labels"),
    [
        ((1.05, 1.1), {"1x", "1.1x"}),
        ((0.97, 1.02), {"1x"}),
        ((1.5, 2.4), {"1x", "2x"}),
        ((0.1, 30.0), {"1x", "10x"}),
        ((0.001, 90_000.0), {"1x"}),
    ],
)
def test_labels_are_round_and_few(times: tuple[float, ...], labels: set[str]) -> None:
    arms = [
        judged(f"c{n}", CandidateStatus.LOST, Code.NOT_FASTER, speedup=fast(t)) for n, t in enumerate(times)
    ]
    plot = ET.fromstring(speedup_plot(run_of(Verdict.NOTHING_FASTER, *arms), {}))
    found = [text.text for text in plot.iter("text") if text.attrib.get("class") == "soft"]
    assert labels <= set(found)
    assert len(found) <= 8
    places = [percent(text.attrib["x"]) for text in plot.iter("text") if text.attrib.get("class") == "soft"]
    assert places == sorted(places)


def test_an_interval_without_an_end_has_no_cap_there() -> None:
    endless = Speedup(estimate=2.0, low=1.5, high=1e30)
    plot = ET.fromstring(
        speedup_plot(run_of(Verdict.TIE, judged("a", CandidateStatus.TIED, speedup=endless)), {})
    )
    assert len(plot.findall("g/line[@class='cap']")) == 1


def test_a_plot_of_many_is_cut() -> None:
    plot = ET.fromstring(speedup_plot(many(), many_trace().rounds))
    assert len(plot.findall("g")) == MOST_ARMS


@pytest.mark.parametrize("text", ATTACKS, ids=range(len(ATTACKS)))
def test_a_file_is_xml_with_a_size_and_text_of_others_is_text(text: str) -> None:
    root = ET.fromstring(file_of(speedup_plot(hostile(text), {text: ArmRounds("race", (1.0,), ())})))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root.attrib["width"] == "760"
    kinds = {one.tag.rpartition("}")[2] for one in root.iter()}
    assert kinds == {"svg", "title", "desc", "style", "rect", "text", "line", "g", "circle"}


def test_the_timeline_has_a_lane_a_slot_and_the_race_across_them() -> None:
    plot = ET.fromstring(timeline_plot(spans_of(TRACE.moments), frozenset({"wrong"})))
    lanes = [text.text for text in plot.iter("text") if text.attrib["x"] == "0"]
    assert lanes == ["phase", "slot 1", "slot 2", "clean"]
    bars = {bar.attrib["class"]: bar for bar in plot.iter("rect")}
    assert bars.keys() == {"phase", "race", "checking", "failed", "confirming"}
    assert float(bars["race"].attrib["height"]) > 3 * float(bars["checking"].attrib["height"])
    assert bars["failed"].findtext("title") == "wrong checking, 0.06 to 0.08 s"


def test_exclusive_sections_are_those_of_all_racing_candidates_together() -> None:
    spans = [StageSpan(name, "racing", 0, 10.0, to) for name, to in (("a", 20.0), ("b", 25.0))]
    later = StageSpan("a", "racing", 0, 30.0, 40.0)
    found = exclusive_sections([later, *spans, StageSpan("c", "checking", 1, 0.0, 5.0)])
    assert [(span.from_ms, span.to_ms) for span in found] == [(10.0, 25.0), (30.0, 40.0)]


def test_a_duplicate_has_no_row_of_its_own() -> None:
    same = replace(RUNS["winner"].candidates[0], id="again", duplicate_of="best")
    run = run_of(Verdict.WINNER, RUNS["winner"].candidates[0], same)
    assert len(ET.fromstring(speedup_plot(run, {})).findall("g")) == 1
