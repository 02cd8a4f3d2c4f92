"""Page of a run: verdict, next command, speedups, comparisons, tests, lineage, timeline, profiles, diffs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from textwrap import dedent
from typing import Any

from codeflash_parallel.report.brief import next_step
from codeflash_parallel.report.charts import hottest
from codeflash_parallel.report.columns import (
    COLUMNS,
    compared_words,
    dropped_words,
    duration,
    flags_words,
    race_sentence,
    ranked,
    timed_candidates,
    total_ns,
    verdict_cell,
    verdict_sentence,
)
from codeflash_parallel.report.page.elements import (
    Markup,
    bounded,
    code,
    disclosure,
    element,
    joined,
    page,
    pairs,
    paragraph,
    section,
    table,
)
from codeflash_parallel.report.page.plots import (
    MOST_ARMS,
    MOST_ROUNDS,
    MOST_SPANS,
    exclusive_sections,
    speedup_plot,
    timeline_plot,
)
from codeflash_parallel.report.timing_table import footer, host_words, isolation_words, machinery_rows
from codeflash_parallel.result.codec import to_plain
from codeflash_parallel.result.outcome_codes import CandidateStatus
from codeflash_parallel.result.result_document import document, readable
from codeflash_parallel.result.result_model import CandidateResult, FirstDifference, LineProfile, RunResult
from codeflash_parallel.result.safe_text import one_line, printable
from codeflash_parallel.run.run_trace import RunTrace, StageSpan, spans_of

#: Columns of the table of candidates; the lineage tells where they are from.
_COLUMNS = [column for column in COLUMNS if not column.from_width]
#: Rows of a table of candidates.
_MOST_ROWS = 250
#: Characters of a reason in a table, and of a name.
_REASON, _NAME = 300, 80
#: Differences that are shown in full; of a message or a value `elements.MOST_CHARACTERS`.
_MOST_DIFFERENCES = 40
#: Tests that are named in the heat map, and candidates: together they keep it below 200 kB.
_MOST_TESTS, _MOST_COLUMNS = 60, 40
#: Messages of failing tests: of one candidate, and of all.
_MESSAGES, _MOST_MESSAGES = 3, 60
#: Levels of a tree that are indented; deeper ones stand beside each other.
_DEPTH = 6
#: Lines of a profile, the hottest.
_MOST_LINES = 40
#: Shares of the time from which on a line is marked.
_WARM, _HOT = 0.15, 0.30
#: Lines of one diff, characters of a line, and characters of all diffs together.
_DIFF_LINES, _LINE, _ALL_DIFFS = 400, 300, 500_000


def run_page(result: RunResult, trace: RunTrace) -> str:
    """Return the page of a run, at most 2 MB; what is left out is said.

    Args:
        result: of the run.
        trace: rounds and moments, as far as they are stored.
    """
    verdict = (result.verdict or "no verdict").replace("_", " ").capitalize()
    names = ", ".join(result.tie_set or filter(None, (result.winner,)))
    heading = one_line(f"{verdict}: {names}" if names else verdict, limit=160)
    spans = spans_of(trace.moments)
    return page(
        f"{heading} - codeflash-parallel",
        heading,
        (
            element("p", {"class": "lead"}, verdict_sentence(result)),
            _next(result),
            section("speedups", "Speedups", *_speedups(result, trace)),
            section("candidates", "Candidates", *_candidates(result)),
            section("calls", "Calls that were compared", *_calls(result)),
            section("tests", "Tests", *_tests(result)),
            section("lineage", "Lineage", *_lineage(result)),
            section("timeline", "Timeline", *_timeline(result, spans)),
            section("profiles", "Line profiles", _profiles(result)),
            section("diffs", "Diffs", *_diffs(result)),
            section("run", "The run", _about(result)),
        ),
    )


def page_document(result: RunResult, trace: RunTrace) -> dict[str, Any]:
    """Return everything that the page shows as JSON has it: the run's document, rounds and timeline."""
    more = {"rounds": to_plain(trace.rounds), "timeline": to_plain(spans_of(trace.moments))}
    return {**document(result), **readable(more)}


def _next(result: RunResult) -> Markup:
    words = next_step(result)
    if not words:
        return Markup()
    is_command = words.startswith("codeflash-parallel ")
    shown = element("pre", {"class": "command"}, code(words)) if is_command else paragraph(words)
    where = paragraph("In ", code(result.repository), ":") if is_command and result.repository else Markup()
    return section("next", "Next", where, shown)


def _more(shown: int, there: int, what: str) -> Markup:
    """Say what is left out; empty: nothing."""
    if there <= shown:
        return Markup()
    left = f"{there - shown:,} more {what} are not shown: the page is bounded; report --json has all of them."
    return element("p", {"class": "note"}, left)


# --- speedups --------------------------------------------------------------------------------------------


def _speedups(result: RunResult, trace: RunTrace) -> Iterator[Markup]:
    plot = speedup_plot(result, trace.rounds)
    if not plot:
        return
    words = (
        "The strong line at 1x is the baseline. A thick line is an interval, the large dot its estimate; "
        "~ marks figures of the race, which are for orientation, the others are confirmed claims."
    )
    dots = (
        " Small dots above: rounds on the calls of the tests; rings below: rounds on unseen ones. "
        "What is beyond an end of the axis is drawn on it."
    )
    timed = timed_candidates(result)
    seen = {one.id: trace.rounds[one.id] for one in timed if one.id in trace.rounds}
    yield element("figure", None, plot, element("figcaption", None, words + (dots if seen else "")))
    yield _more(MOST_ARMS, len(timed), "candidates")
    yield paragraph(race_sentence(result))
    rows = [
        (
            one_line(name, limit=_NAME),
            arm.stage,
            kind,
            str(len(times)),
            " ".join(f"{t:.3g}" for t in times[:MOST_ROUNDS]),
        )
        for name, arm in list(seen.items())[:MOST_ARMS]
        for kind, times in (("tests' calls", arm.seen), ("unseen", arm.unseen))
        if times
    ]
    if rows:
        header = ("candidate", "stage", "inputs", "rounds", f"speedup in each round, {MOST_ROUNDS} at most")
        yield disclosure("Rounds as a table", table("Speedup in each round", header, rows, figures=(3,)))


# --- candidates ------------------------------------------------------------------------------------------


def _candidates(result: RunResult) -> Iterator[Markup]:
    if not result.candidates:
        yield paragraph("There are none." if result.complete else "None has a result.")
        return
    shown = ranked(result)[:_MOST_ROWS]
    rows = [[_verdict(one) if c.name == "verdict" else c.cell(one) for c in _COLUMNS] for one in shown]
    header = [column.name for column in _COLUMNS]
    figures = [n for n, column in enumerate(_COLUMNS) if column.is_figure or column.name == "speedup"]
    yield table("Candidates, the best first", header, rows, figures=figures, notes=list(map(_reason, shown)))
    yield _more(_MOST_ROWS, len(result.candidates), "candidates")


def _verdict(one: CandidateResult) -> Markup:
    kind = "good" if one.status.is_best else "bad" if one.status is CandidateStatus.REJECTED else "unsure"
    return element("span", {"class": f"tag {kind}"}, verdict_cell(one))


def _reason(one: CandidateResult) -> str:
    parts = [one.reason, dropped_words(one), *(f"Review: {hint}" for hint in one.hints)]
    if one.flags:
        parts.append(f"Its code adds: {flags_words(one.flags, 5)}.")
    return one_line(" ".join(one_line(part, limit=_REASON) for part in parts if part), limit=2 * _REASON)


# --- values ----------------------------------------------------------------------------------------------


def _calls(result: RunResult) -> Iterator[Markup]:
    checked = [one for one in ranked(result) if compared_words(one.values) and not one.duplicate_of]
    shown = checked[:_MOST_ROWS]
    if shown:
        header = ("candidate", "captured", "differ", "fresh", "differ", "outside", "differ")
        rows, notes = map(_values_row, shown), list(map(_compared, shown))
        yield table("Calls compared with the baseline's", header, rows, figures=range(1, 7), notes=notes)
    yield from _differences(
        "Values that differ", "Difference", [(one, one.difference) for one in ranked(result)]
    )
    beyond = "Differences on inputs unlike all observed ones, which decide nothing"
    yield from _differences(beyond, "Outside", [(one, one.outside) for one in ranked(result)])


def _values_row(one: CandidateResult) -> Sequence[str]:
    v = one.values
    counts = (v.compared, v.differing, v.derived, v.derived_differing, v.outside, v.outside_differing)
    return (one_line(one.id, limit=_NAME), *(f"{n:,}" for n in counts))


def _compared(one: CandidateResult) -> str:
    return one_line(compared_words(one.values), limit=2 * _REASON)


def _differences(
    heading: str, label: str, firsts: Iterable[tuple[CandidateResult, FirstDifference | None]]
) -> Iterator[Markup]:
    found = [(one, first) for one, first in firsts if first is not None]
    if found:
        yield element("h3", None, heading)
    for number, (one, first) in enumerate(found[:_MOST_DIFFERENCES], 1):
        yield _difference(f"{label} {number}", one, first)
    yield _more(_MOST_DIFFERENCES, len(found), "differences")


def _difference(label: str, one: CandidateResult, first: FirstDifference) -> Markup:
    where = f"call {first.call}" + (", a fresh input made from one" if first.derived else "") + " of"
    breaks = f"unlike the observed inputs: {first.breaks}" if first.breaks else ""
    rows = [
        ("the call", first.inputs, first.expected, first.got),
        ("a smaller one", first.smaller_inputs, first.smaller_expected, first.smaller_got),
    ]
    name = one_line(one.id, limit=_NAME)
    shown = [(row[0], *map(code, row[1:])) for row in rows if any(row[1:])]
    return disclosure(
        f"{name}: {one_line(first.target, limit=200)}",
        paragraph(f"{where} ", code(first.test), f"; {breaks}" if breaks else ""),
        table(f"{label}: {name}", ("example", "inputs", "expected", "got"), shown),
        paragraph("Run it again: ", code(one.reproduce)) if one.reproduce else Markup(),
    )


# --- tests -----------------------------------------------------------------------------------------------


def _tests(result: RunResult) -> Iterator[Markup]:
    checked = [one for one in ranked(result) if one.tests.expected and not one.duplicate_of]
    if not checked:
        return
    named = dict.fromkeys(t for one in checked for t in (*one.tests.failed_ids, *one.tests.missing_ids))
    total = max(one.tests.expected for one in checked)
    if not named:
        partly = sum(one.tests.passed < one.tests.expected for one in checked)
        but = f" {partly} of them did not run all tests: something else had decided." if partly else ""
        all_ = f"{len(checked):,} checked candidates from the baseline (of {total:,} tests)."
        yield paragraph(f"No test told the {all_}{but}")
        return
    told = [one for one in checked if one.tests.failed_ids or one.tests.missing_ids or one.status.is_best]
    tests, columns = list(named)[:_MOST_TESTS], told[:_MOST_COLUMNS]
    outcomes = {one.id: _Outcomes(one) for one in columns}
    header = ["test", *(one_line(one.id, limit=30) for one in columns)]
    rows = [[one_line(test, limit=200), *(outcomes[one.id].cell(test) for one in columns)] for test in tests]
    caption = "Tests that differ: ok as on the baseline, F fails, M missing, ? not run or not stored"
    yield table(caption, header, rows, kind="heat")
    yield _more(_MOST_TESTS, len(named), "tests")
    yield _more(_MOST_COLUMNS, len(told), "candidates")
    rest = f"{max(0, total - len(named)):,} other tests are not known to differ for any candidate; "
    yield paragraph(f"{rest}{len(checked) - len(told):,} other candidates failed none.")
    messages = [(one, failure) for one in told for failure in one.failures[:_MESSAGES]]
    yield joined(
        disclosure(
            f"{one_line(one.id, limit=_NAME)}: {one_line(failure.id, limit=200)}",
            element("pre", None, failure.message),
        )
        for one, failure in messages[:_MOST_MESSAGES]
    )
    yield _more(_MOST_MESSAGES, len(messages), "messages")


class _Outcomes:
    """Outcomes of the tests of one candidate, as far as the result names them."""

    def __init__(self, one: CandidateResult) -> None:
        tests = one.tests
        self._failed, self._missing = frozenset(tests.failed_ids), frozenset(tests.missing_ids)
        listed = len(self._failed) >= tests.failed and len(self._missing) >= tests.missing
        self._others_passed = listed and not tests.not_run

    def cell(self, test: str) -> Markup:
        """Return the cell of a test."""
        if test in self._failed:
            return element("td", {"class": "failed"}, "F")
        if test in self._missing:
            return element("td", {"class": "missing"}, "M")
        return element("td", {"class": "passed"}, "ok") if self._others_passed else element("td", None, "?")


# --- lineage ---------------------------------------------------------------------------------------------


def _lineage(result: RunResult) -> Iterator[Markup]:
    by_id = {one.id: one for one in result.candidates}
    children: dict[str, list[CandidateResult]] = defaultdict(list)
    for one in result.candidates:
        above = one.parent or one.duplicate_of or ""
        if above == "baseline" or (above in by_id and above != one.id):
            children[above].append(one)
    if not children:
        return
    derived = {one.id for group in children.values() for one in group}
    roots = [one for one in result.candidates if one.id not in derived and one.id in children]
    of_baseline = children.pop("baseline", [])
    placed: set[str] = set()

    def items(group: Iterable[CandidateResult], depth: int) -> list[Markup]:
        found: list[Markup] = []
        for one in group:
            if one.id in placed:
                continue
            placed.add(one.id)
            below = items(children.get(one.id, ()), depth + 1)
            nested = [element("ul", None, *below)] if below and depth < _DEPTH else []
            found.append(element("li", None, *_node(one), *nested))
            found += below if not nested else []
        return found

    tree = items(roots, 0)
    if of_baseline:
        tree.append(element("li", None, "baseline", element("ul", None, *items(of_baseline, 1))))
    tree += items(result.candidates if len(placed) < len(derived) else (), 0)  # parents that name each other
    yield element("ul", {"class": "tree"}, *tree)
    alone = len(result.candidates) - len(placed)
    if alone:
        yield paragraph(f"Candidates with neither a parent nor children: {alone:,}.")


def _node(one: CandidateResult) -> Iterator[str]:
    yield element("strong", None, one_line(one.id, limit=_NAME))
    yield f" {'duplicate' if one.duplicate_of else one.origin.value}, "
    yield _verdict(one)


# --- timeline --------------------------------------------------------------------------------------------


def _timeline(result: RunResult, spans: Sequence[StageSpan]) -> Iterator[Markup]:
    rejected = frozenset(one.id for one in result.candidates if one.status is CandidateStatus.REJECTED)
    plot = timeline_plot(spans, rejected)
    if not plot:
        return
    words = (
        "Each lane is a slot. Blue: a check; red: a check of a candidate that was rejected; violet, in the "
        "lane clean: the check in a new process. Yellow across all lanes: the race, alone on the machine."
    )
    yield element("figure", None, plot, element("figcaption", None, words))
    rows = [
        (
            one_line(span.candidate, limit=_NAME) or ("all slots" if span.stage == "racing" else "the run"),
            span.stage,
            str(span.slot or ""),
            f"{span.from_ms / 1e3:.2f}",
            f"{span.to_ms / 1e3:.2f}",
        )
        for span in sorted(
            (*exclusive_sections(spans), *(s for s in spans if not s.candidate or s.stage != "racing")),
            key=lambda span: span.from_ms,
        )
    ]
    header = ("candidate", "stage", "slot", "from (s)", "to (s)")
    parts = table("Work by slot", header, rows[:MOST_SPANS], figures=(2, 3, 4))
    yield disclosure("Timeline as a table", parts, _more(MOST_SPANS, len(rows), "rows"))


# --- profiles --------------------------------------------------------------------------------------------


def _profiles(result: RunResult) -> Markup:
    named = (("Baseline", result.baseline_profile), (f"Winner {result.winner}", result.winner_profile))
    tables = [_profile(name, profile) for name, profile in named if profile is not None and profile.lines]
    return element("div", {"class": "side"}, *tables) if tables else Markup()


def _profile(name: str, profile: LineProfile) -> Markup:
    total = total_ns(profile) or 1
    shown = hottest(profile.lines, _MOST_LINES)
    sources = dedent(
        "\n".join(printable(line.text).replace("\n", " ").rstrip()[:_LINE] for line in shown)
    ).split("\n")
    rows = []
    for line, text in zip(shown, sources, strict=True):
        share = line.time_ns / total
        kind = "hot" if share >= _HOT else "warm" if share >= _WARM else None
        figures = (
            (f"{line.hits:,}", duration(line.time_ns), f"{100 * share:.0f}") if line.hits else ("", "", "")
        )
        source = element("td", {"class": kind}, code(text))
        rows.append((str(line.line), *figures, source))
    caption = f"{one_line(name, limit=_NAME)}: {duration(total)}, {one_line(profile.tracer, limit=40)}"
    header = ("line", "hits", "time", "%", "source")
    drawn = table(caption, header, rows, figures=(1, 2, 3), kind="profile")
    return element("div", None, drawn, _more(len(shown), len(profile.lines), "colder lines"))


# --- diffs -----------------------------------------------------------------------------------------------


def _diffs(result: RunResult) -> Iterator[Markup]:
    left, with_diff = _ALL_DIFFS, [one for one in ranked(result) if one.diff]
    for one in with_diff[:_MOST_ROWS]:
        lines = one.diff.rstrip("\n").split("\n")
        added, removed = (
            sum(n.startswith(sign) and not n.startswith(sign * 3) for n in lines) for sign in "+-"
        )
        summary = f"{one_line(one.id, limit=_NAME)}: +{added} -{removed} lines"
        if left <= 0:
            words = "Left out, because the page is bounded; it is the file "
            yield disclosure(summary, paragraph(words, code(one.diff_path or "that the run has stored")))
            continue
        shown = [_diff_line(line) for line in lines[:_DIFF_LINES]]
        left -= sum(map(len, shown))
        more = f"{len(lines) - len(shown):,} more lines" if len(lines) > len(shown) else ""
        text = element("code", None, Markup("\n".join(shown)))
        whole = element("pre", {"class": "diff"}, text)
        yield disclosure(summary, paragraph(one.explanation), whole, paragraph(more))
    yield _more(_MOST_ROWS, len(with_diff), "diffs")


def _diff_line(line: str) -> Markup:
    kinds = (("+++", "place"), ("---", "place"), ("@@", "place"), ("+", "add"), ("-", "cut"))
    kind = next((kind for start, kind in kinds if line.startswith(start)), None)
    return element("span", {"class": kind}, bounded(line, _LINE))


# --- the run ---------------------------------------------------------------------------------------------


def _about(result: RunResult) -> Markup:
    error = result.error
    rows = [
        ("run", result.run_id),
        ("targets", ", ".join(result.targets[:20])),
        ("base", f"{result.base} {result.snapshot[:12]}".strip()),
        ("tests", f"{result.tests_selected:,} selected, {len(result.quarantined):,} flaky and ignored"),
        ("comparison", f"{result.compare}, level {result.level.value}"),
        ("isolation", isolation_words(result)),
        ("interpreter", result.python),
        ("seed", str(result.seed)),
        ("time in slots", footer(result)),
        *(("host", host_words(use).removeprefix("Host ")) for use in result.hosts[:20]),
        *machinery_rows(result)[:20],
        ("error", f"{error.code}: {error.message} {error.hint}" if error else ""),
        *(("warning", warning) for warning in result.warnings[:20]),
    ]
    return pairs([(name, one_line(words, limit=1_000)) for name, words in rows])
