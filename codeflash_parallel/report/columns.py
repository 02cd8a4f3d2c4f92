"""Columns of the result table, and words for results: the same for the terminal, Markdown and JUnit XML.

A new column is one entry of `COLUMNS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from codeflash_parallel.result.outcome_codes import CandidateStatus, Level
from codeflash_parallel.result.result_model import (
    CandidateResult,
    Flag,
    LineProfile,
    RaceFigures,
    RunResult,
    Speedup,
    ValueCounts,
)
from codeflash_parallel.result.safe_text import one_line

#: Statuses in the order of tables, the best first, with their style on a terminal.
STYLES = {
    CandidateStatus.WON: "bold green",
    CandidateStatus.TIED: "green",
    CandidateStatus.LOST: "yellow",
    CandidateStatus.UNDECIDED: "cyan",
    CandidateStatus.REJECTED: "red",
    CandidateStatus.UNAPPLIABLE: "magenta",
    CandidateStatus.DUPLICATE: "dim",
    CandidateStatus.CANCELLED: "dim",
    CandidateStatus.INFRA: "bold magenta",
}

#: Columns of a terminal from which on the origin has a column of its own; else the reasons tell it.
WIDE = 110

#: Members of a list that are named, and characters of a name in it.
_NAMED, _ID = 10, 40

#: What a cell says where there is nothing to say.
NOTHING = "-"


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """A column of the result table.

    Attributes:
        name: its heading, and the name of JUnit's property.
        cell: a candidate's text in it; others wrote parts of it, so it is not printable yet.
        style: a candidate's style on a terminal.
        is_figure: it is aligned to the right.
        folds: it may take several lines where there is little room.
        from_width: columns of a terminal from which on it is shown; 0: always, and in Markdown.
    """

    name: str
    cell: Callable[[CandidateResult], str]
    style: Callable[[CandidateResult], str] = lambda _: ""
    is_figure: bool = False
    folds: bool = False
    from_width: int = 0


def ranked(result: RunResult) -> list[CandidateResult]:
    """Return the candidates in the order of a table: the best first, then as they came."""
    places = {status: place for place, status in enumerate(STYLES)}
    return sorted(
        result.candidates, key=lambda c: (places[c.status], -(c.speedup.estimate if c.speedup else 0))
    )


def verdict_cell(candidate: CandidateResult) -> str:
    """Return the status, and the code where it adds something."""
    return candidate.status if candidate.status.is_best else f"{candidate.status} {candidate.code}"


def speedup_cell(speedup: Speedup | None) -> str:
    """Return a speedup with its interval; figures of the race itself are for orientation and marked so."""
    if speedup is None:
        return NOTHING
    sign = "~" if speedup.stage == "race" else ""
    digits = digits_of(speedup.estimate)
    low, high = (f"{bound:.{digits}f}" for bound in (speedup.low, speedup.high))
    return f"{sign}{speedup.estimate:.{digits}f}x ({low}-{high})"


def timed_candidates(result: RunResult) -> list[CandidateResult]:
    """Return the candidates with a speedup of their own, the best first."""
    return [one for one in ranked(result) if one.speedup is not None and not one.duplicate_of]


def speedup_words(result: RunResult) -> str:
    """Return the best speedups as text, for readers that do not see a plot of them."""
    timed = timed_candidates(result)
    words = "; ".join(f"{one_line(c.id, limit=_ID)} {speedup_cell(c.speedup)}" for c in timed[:_NAMED])
    return f"{words}{f' and {len(timed) - _NAMED} more' if len(timed) > _NAMED else ''}."


def digits_of(speedup: float) -> int:
    """Return decimals that show three significant digits of a speedup."""
    return 2 if speedup < 10 else 1 if speedup < 100 else 0  # noqa: PLR2004 - powers of ten


def origin_cell(candidate: CandidateResult) -> str:
    """Return where a candidate came from: its ancestors, the nearest first, or what it repeats."""
    if candidate.duplicate_of:
        return f"same as {candidate.duplicate_of}"
    descent = f" of {' < '.join(reversed(candidate.lineage))}" if candidate.lineage else ""
    return f"{candidate.origin}{descent}"


def _tests(candidate: CandidateResult) -> str:
    """Return how many of the expected tests pass."""
    tests = candidate.tests
    return f"{tests.passed}/{tests.expected}" if tests.expected else NOTHING


def _calls(candidate: CandidateResult) -> str:
    """Return how many of the compared calls are equal: captured ones, and those with derived inputs."""
    values = candidate.values
    compared = values.compared + values.derived
    equal = compared - values.differing - values.derived_differing
    return f"{equal}/{compared}" if compared else NOTHING


COLUMNS = (
    Column(
        name="candidate", cell=lambda c: c.id, style=lambda c: "bold" if c.status.is_best else "", folds=True
    ),
    Column(name="verdict", cell=verdict_cell, style=lambda c: STYLES[c.status], folds=True),
    Column(name="tests", cell=_tests, is_figure=True),
    Column(name="calls", cell=_calls, is_figure=True),
    Column(
        name="speedup",
        cell=lambda c: speedup_cell(c.speedup),
        style=lambda c: STYLES[c.status] if c.status.is_best else "",
    ),
    Column(name="from", cell=origin_cell, style=lambda _: "dim", folds=True, from_width=WIDE),
)


def verdict_sentence(result: RunResult) -> str:
    """Return the verdict as one printable sentence."""
    if result.error is not None:
        return one_line(result.error.message)
    return one_line(result.summary) or "There is no verdict."


def compared_words(values: ValueCounts) -> str:
    """Return what was compared and what was not, and how deep that goes; empty where nothing was."""
    if values.level in {Level.NONE, Level.TESTS} and not values.uncaptured and not values.uncompared:
        return ""
    parts = [f"{values.compared} captured calls", values.fresh]
    counts = (
        (values.accepted, "with other results that your judge accepts"),
        (values.outside, "inputs unlike all observed"),
        (values.beside, "calls of watched functions"),
        (values.repeated, "repetitions left out"),
        (values.unstable, "unstable left out"),
    )
    parts += [f"{count} {what}" for count, what in counts if count]
    parts += [f"{count} dropped: {one_line(why)}" for why, count in values.dropped.items()]
    parts += [f"{count} not compared: {one_line(why)}" for why, count in values.uncaptured.items()]
    parts += [f"{one_line(name)} is changed and not compared" for name in values.uncompared]
    return f"level {values.level.value}: {', '.join(parts)}"


def uncompared_words(values: ValueCounts) -> str:
    """Return which calls are not compared, and why; empty where all of them are."""
    unstable = {"they differ from replay to replay": values.unstable} if values.unstable else {}
    reasons = {**values.uncaptured, **unstable}
    if not reasons:
        return ""
    level = "tests only, no values were compared" if values.level is Level.TESTS else "not compared"
    return f"{level}: " + "; ".join(f"{_counted(count)}: {one_line(why)}" for why, count in reasons.items())


def _counted(count: int) -> str:
    return f"{count} call{'' if count == 1 else 's'}"


def race_lines(candidate: CandidateResult) -> list[tuple[str, str]]:
    """Return what was measured of a candidate as pairs of a name and words; empty when it was not timed."""
    race = candidate.race
    if race is None:
        return []
    lines = [("timed", _rounds(race)), ("clocks", _clocks(race, candidate.speedup))]
    lines += [("inputs", _inputs(race)), ("memory", _memory(race)), ("throughput", _throughput(race))]
    return [(name, words) for name, words in lines if words]


def _rounds(race: RaceFigures) -> str:
    counted = f"{race.rounds} round{'' if race.rounds == 1 else 's'} of the {race.stage}"
    if not race.dropped:
        return counted
    when = f"after {race.dropped_after} of them" if race.dropped_after else "at the end"
    return f"{counted}; dropped {when}: {one_line(race.dropped)}"


def dropped_words(candidate: CandidateResult) -> str:
    """Return when a candidate was dropped from its race, a sentence; empty when it was timed to the end."""
    race = candidate.race
    if race is None or not race.dropped_after:
        return ""
    rounds = f"{race.dropped_after} round{'' if race.dropped_after == 1 else 's'}"
    return f"(Dropped after {rounds} of the {race.stage}.)"


def _clocks(race: RaceFigures, decided: Speedup | None) -> str:
    """Return the speedups on either clock, and which of them decided."""
    shown = [f"{name} {speedup_cell(s)}" for name, s in (("CPU", race.cpu), ("wall", race.wall)) if s]
    words = ", ".join(shown)
    return f"{words}; {one_line(decided.clock)} time decides" if words and decided else words


def _inputs(race: RaceFigures) -> str:
    named = (("the tests' calls", race.seen), ("unseen", race.unseen))
    return ", ".join(f"{name} {gain:.{digits_of(gain)}f}x" for name, gain in named if gain is not None)


def _memory(race: RaceFigures) -> str:
    if not (race.peak_bytes or race.baseline_peak_bytes):
        return ""
    own, baseline = (f"{size / 2**20:.1f} MiB" for size in (race.peak_bytes, race.baseline_peak_bytes))
    return f"grows by {own} at its peak, the baseline by {baseline}"


def _throughput(race: RaceFigures) -> str:
    if race.calls_per_s is None or race.baseline_calls_per_s is None:
        return ""
    return f"{race.calls_per_s:,.0f} calls a second, the baseline {race.baseline_calls_per_s:,.0f}"


def race_sentence(result: RunResult) -> str:
    """Return what the races of a run were, one line; empty without a race."""
    race = result.race
    if not race:
        return ""
    void = f" ({race['void']} disturbed)" if race["void"] else ""
    noise = f"; rounds scatter by {100 * race['unit_sd']:.1f} %" if race["unit_sd"] is not None else ""
    rounds = f"{race['rounds']} round{'' if race['rounds'] == 1 else 's'}{void}"
    return one_line(f"timed: {race.get('timed', '')}; {rounds} in {race['seconds']:.1f} s{noise}")


def group_lines(result: RunResult) -> list[tuple[str, str]]:
    """Return what stands behind the names of groups of several tests, a name and words each."""
    return [
        (one_line(group["group"]), _members(group["share"], group["tests"]))
        for group in result.race.get("groups", ())
        if len(group["tests"]) > 1
    ]


def _members(share: float, tests: Sequence[str]) -> str:
    more = ", ..." if len(tests) > _NAMED else ""
    return f"{100 * share:.0f} % of the time: {', '.join(map(one_line, tests[:_NAMED]))}{more}"


def flags_words(flags: Sequence[Flag], limit: int = 0) -> str:
    """Return what a candidate's code adds, each with its place, on one line; at most `limit` (0: all)."""
    shown = flags[:limit] if limit else flags
    words = [one_line(f"{flag.what} ({flag.kind.value}, {_place(flag)})") for flag in shown]
    return ", ".join(words) + (f" and {len(flags) - len(shown)} more" if len(flags) > len(shown) else "")


def _place(flag: Flag) -> str:
    return f"{flag.path}:{flag.line}" if flag.line else flag.path


def duration(nanoseconds: float) -> str:
    """Return a time with three significant digits and the unit that suits it."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if nanoseconds >= size:
            count = nanoseconds / size
            return f"{count:.3g} {unit}" if count < 999.5 else f"{count:.0f} {unit}"  # noqa: PLR2004 - no 1e+03
    return f"{nanoseconds:.0f} ns"


def total_ns(profile: LineProfile) -> int:
    """Return the time of all lines of a profile."""
    return sum(line.time_ns for line in profile.lines)
