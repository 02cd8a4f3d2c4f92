"""Plots as SVG: speedup intervals with the rounds behind them, and the timeline of slots.

Places along the axis are percentages: a plot takes the width that there is, and its letters keep their size.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import floor, log, log10

from codeflash_parallel.report.charts import axis_of
from codeflash_parallel.report.columns import speedup_cell, speedup_words, timed_candidates
from codeflash_parallel.report.page.elements import Attributes, Markup, element
from codeflash_parallel.report.page.styles import COLOURS, PLOT
from codeflash_parallel.result.events import Stage
from codeflash_parallel.result.result_model import CandidateResult, RunResult
from codeflash_parallel.result.safe_text import one_line
from codeflash_parallel.run.run_trace import ArmRounds, StageSpan

#: Characters of a name: on a phone its figures have to fit beside it.
_NAME = 24
#: Candidates in one plot, and rounds of one candidate; both are said where there are more.
MOST_ARMS, MOST_ROUNDS = 60, 60
#: Pixels: of a candidate's row (dashes of `styles.PLOT` are as long), of the axis; of a file.
_ROW, _AXIS, _WIDTH, _BORDER = 44, 24, 760, 8
#: Percent of the width that the axis leaves free at each end.
_MARGIN = 2.0
#: Labels on an axis, at most.
_TICKS = 6


def speedup_plot(result: RunResult, rounds: Mapping[str, ArmRounds]) -> Markup:
    """Return the intervals of candidates that were timed on a logarithmic axis; empty: there are none."""
    arms = timed_candidates(result)[:MOST_ARMS]
    if not arms:
        return Markup()
    axis = _Axis(axis_of([one.speedup for one in arms if one.speedup]))
    height = _AXIS + _ROW * len(arms)
    marks = [_interval(one, rounds.get(one.id), axis, _AXIS + _ROW * n) for n, one in enumerate(arms)]
    return _svg(
        "speedups",
        "Speedups over the baseline",
        f"{speedup_words(result)} A line is an interval, a filled dot on it the estimate.",
        height,
        *_scale(axis, height),
        *marks,
    )


def file_of(plot: Markup) -> str:
    """Return a plot as a file of its own: with its style, a background and a border."""
    found = re.search(r'height="(\d+)"', plot)
    height = _BORDER * 2 + int(found.group(1) if found else 0)
    frame: Attributes = {"xmlns": "http://www.w3.org/2000/svg", "width": _WIDTH, "height": height}
    style = element("style", None, Markup(COLOURS + PLOT))
    paper = element("rect", {"class": "paper", "width": "100%", "height": "100%"})
    inside = plot.replace('width="100%"', f'x="{_BORDER}" y="{_BORDER}" width="{_WIDTH - 2 * _BORDER}"', 1)
    return f"{element('svg', frame, style, paper, Markup(inside))}\n"


def _svg(name: str, title: str, words: str, height: int, *parts: Markup) -> Markup:
    titles = (
        element("title", {"id": f"{name}-title"}, title),
        element("desc", {"id": f"{name}-words"}, words),
    )
    attributes: Attributes = {
        "width": "100%",
        "height": height,
        "role": "img",
        "aria-labelledby": f"{name}-title {name}-words",
    }
    return element("svg", attributes, *titles, *parts)


class _Axis:
    """A logarithmic axis: places of speedups in percent of the width."""

    def __init__(self, ends: tuple[float, float]) -> None:
        self.low, self.high = ends

    def place(self, times: float) -> str:
        """Return where a speedup is; what is beyond an end is drawn on it."""
        inside = min(max(times, self.low), self.high)
        share = log(inside / self.low) / log(self.high / self.low)
        return f"{_MARGIN + share * (100 - 2 * _MARGIN):.2f}%"

    def ticks(self) -> list[float]:
        """Return round speedups along the axis, the baseline's always among them."""
        if self.high / self.low < 3:  # noqa: PLR2004 - steps of one size still look even
            step = next(s for s in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5) if (self.high - self.low) / s <= _TICKS)
            first, last = floor(self.low / step) + 1, floor(self.high / step)
            return sorted({1.0, *(round(n * step, 2) for n in range(first, last + 1))})
        powers = range(floor(log10(self.low)), floor(log10(self.high)) + 1)
        for digits in ((1, 2, 5), (1, 3), (1,)):
            found = [d * 10.0**p for p in powers for d in digits if self.low <= d * 10.0**p <= self.high]
            if len(found) <= _TICKS:
                return sorted({1.0, *found})
        return sorted({1.0, *found[:: len(found) // _TICKS + 1]})


def _scale(axis: _Axis, height: int) -> Iterator[Markup]:
    for times in axis.ticks():
        x = axis.place(times)
        label: Attributes = {"x": x, "y": 14, "text-anchor": "middle", "class": "soft"}
        yield element("text", label, f"{times:g}x")
        # Dashes as long as a row: a line is drawn beside intervals, not through names.
        kind = "one" if times == 1 else "grid"
        yield element("line", {"class": kind, "x1": x, "x2": x, "y1": _AXIS + 18, "y2": height})


def _interval(one: CandidateResult, rounds: ArmRounds | None, axis: _Axis, top: int) -> Markup:
    speedup = one.speedup
    assert speedup is not None
    middle = top + 30
    colour = "good" if speedup.low > 1 else "bad" if speedup.high < 1 else "unsure"
    low, high = axis.place(speedup.low), axis.place(speedup.high)
    drawn = [
        element("text", {"x": "0", "y": top + 15}, one_line(one.id, limit=_NAME)),
        element("text", {"x": "100%", "y": top + 15, "text-anchor": "end"}, speedup_cell(speedup)),
        *(_rounds(rounds, axis, middle) if rounds else ()),
        element("line", {"class": "span", "x1": low, "x2": high, "y1": middle, "y2": middle}),
    ]
    inside = ((x, axis.low <= bound <= axis.high) for x, bound in ((low, speedup.low), (high, speedup.high)))
    drawn += [
        element("line", {"class": "cap", "x1": x, "x2": x, "y1": middle - 5, "y2": middle + 5})
        for x, is_end in inside
        if is_end
    ]
    drawn.append(
        element("circle", {"class": "mark", "cx": axis.place(speedup.estimate), "cy": middle, "r": 5})
    )
    return element("g", {"class": colour}, *drawn)


def _rounds(rounds: ArmRounds, axis: _Axis, middle: int) -> Iterator[Markup]:
    """Yield dots above the interval for rounds on the tests' calls, and rings below it for unseen ones."""
    for kind, y, times in (("dot", middle - 6, rounds.seen), ("ring", middle + 6, rounds.unseen)):
        for one in times[:MOST_ROUNDS]:
            yield element("circle", {"class": kind, "cx": axis.place(one), "cy": y, "r": 2.5})


# --- timeline --------------------------------------------------------------------------------------------

#: Pixels of a lane.
_LANE = 26
#: Percent of the width that the names of lanes take at the left; a phase that is narrower has no name.
_NAMES, _NARROW = 17.0, 16.0
#: Spans that are drawn.
MOST_SPANS = 800


def timeline_plot(spans: Sequence[StageSpan], rejected: frozenset[str]) -> Markup:
    """Return the slots as lanes, with the phases above and the race across all of them; empty: no spans.

    Args:
        spans: of candidates, and of the run's phases.
        rejected: ids of candidates that are marked as such.
    """
    end_ms = max((span.to_ms for span in spans), default=0.0)
    if not end_ms:
        return Markup()

    def x(ms: float) -> float:
        return _NAMES + ms / end_ms * (100 - _NAMES)

    def bar(span: StageSpan, kind: str, y: int, height: int, *title: Markup) -> Markup:
        left, width = x(span.from_ms), max(0.15, x(span.to_ms) - x(span.from_ms))
        place: Attributes = {"x": f"{left:.2f}%", "y": y, "width": f"{width:.2f}%", "height": height}
        return element("rect", {"class": kind, **place}, *title)

    slots = sorted({span.slot for span in spans if span.slot})
    confirms = any(span.stage == Stage.CONFIRMING for span in spans)
    names = ["phase", *(f"slot {slot}" for slot in slots), *(["clean"] if confirms else [])]
    height = _LANE * len(names) + 24
    parts = [part for n, name in enumerate(names) for part in _lane(name, _LANE * n)]
    for span in (span for span in spans if not span.candidate):
        parts.append(bar(span, "phase", 2, _LANE - 5, element("title", None, _words(span))))
        if x(span.to_ms) - x(span.from_ms) >= _NARROW:
            parts.append(element("text", {"x": f"{x(span.from_ms) + 0.7:.2f}%", "y": 17}, span.stage))
    for race in exclusive_sections(spans):
        title = element("title", None, f"The race has the machine to itself: {_words(race)}")
        parts.append(bar(race, "race", _LANE, _LANE * (len(names) - 1), title))
    worked = [span for span in spans if span.candidate and (span.slot or span.stage == Stage.CONFIRMING)]
    for span in worked[:MOST_SPANS]:
        lane = names.index(f"slot {span.slot}" if span.slot else "clean")
        kind = "failed" if span.candidate in rejected and span.slot else span.stage
        parts.append(bar(span, kind, _LANE * lane + 3, _LANE - 7, element("title", None, _words(span))))
    for share, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        label: Attributes = {"x": f"{x(end_ms * share):.2f}%", "y": height - 6, "text-anchor": anchor}
        parts.append(element("text", {**label, "class": "soft"}, f"{end_ms * share / 1e3:.1f} s"))
    words = f"{len(slots)} slots over {end_ms / 1e3:.1f} seconds; the table below has the same."
    return _svg("timeline", "Timeline of the slots", words, height, *parts)


def _lane(name: str, top: int) -> Iterator[Markup]:
    yield element("text", {"x": "0", "y": top + 17}, name)
    below = top + _LANE - 0.5
    yield element("line", {"class": "lane", "x1": "0", "x2": "100%", "y1": below, "y2": below})


def exclusive_sections(spans: Sequence[StageSpan]) -> list[StageSpan]:
    """Return when races had the machine to themselves: while any candidate was racing."""
    merged: list[StageSpan] = []
    for span in sorted(
        (s for s in spans if s.candidate and s.stage == Stage.RACING), key=lambda s: s.from_ms
    ):
        if merged and span.from_ms <= merged[-1].to_ms:
            merged[-1] = merged[-1]._replace(to_ms=max(merged[-1].to_ms, span.to_ms))
        else:
            merged.append(span._replace(candidate="", slot=0))
    return merged


def _words(span: StageSpan) -> str:
    subject = one_line(span.candidate, limit=60)
    seconds = f"{span.from_ms / 1e3:.2f} to {span.to_ms / 1e3:.2f} s"
    return f"{subject} {span.stage}, {seconds}".lstrip()
