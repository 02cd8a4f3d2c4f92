"""How results are put into words and signs, the same on every surface for people."""

from __future__ import annotations

from codeflash_parallel.model.outcome import Status, Verdict
from codeflash_parallel.model.result import CandidateResult, LineProfile, RunResult, Speedup
from codeflash_parallel.report.text import one_line

#: The best first; the order of tables.
RANK = {status: place for place, status in enumerate(Status)}

#: Said when the engine gave no sentence of its own.
_SENTENCES = {
    Verdict.WINNER: "{winner} is the fastest that is still correct.",
    Verdict.TIE: "{tied} are faster than the baseline and cannot be told apart.",
    Verdict.NOTHING_FASTER: "Nothing is measurably faster than the baseline.",
    Verdict.NONE_CORRECT: "No candidate is equivalent to the baseline.",
    Verdict.TOO_NOISY: "The machine is too noisy to say which candidate is faster.",
    Verdict.SUSPECT: "Something is faster, but how is in doubt.",
}


def ranked(result: RunResult) -> list[CandidateResult]:
    """Return the candidates in the order of a table: the best first, then as they came."""
    return sorted(
        result.candidates, key=lambda c: (RANK[c.status], -(c.speedup.estimate if c.speedup else 0))
    )


def verdict_sentence(result: RunResult) -> str:
    """Return the verdict as one printable sentence."""
    if result.error is not None:
        return one_line(result.error.message)
    if result.summary:
        return one_line(result.summary)
    if result.verdict is None:
        return "The run is incomplete: there is no verdict."
    sentence = _SENTENCES[result.verdict]
    return one_line(sentence.format(winner=result.winner, tied=", ".join(result.tie_set)))


def tests_cell(candidate: CandidateResult) -> str:
    """Return how many of the expected tests pass."""
    tests = candidate.tests
    return f"{tests.passed}/{tests.expected}" if tests.expected else "-"


def values_cell(candidate: CandidateResult) -> str:
    """Return how many of the compared calls are equal."""
    values = candidate.values
    return f"{values.compared - values.differing}/{values.compared}" if values.compared else "-"


def speedup_cell(speedup: Speedup | None) -> str:
    """Return a speedup with its interval; figures of the race itself are for orientation and marked so."""
    if speedup is None:
        return "-"
    sign = "~" if speedup.stage == "race" else ""
    digits = _digits(speedup.estimate)
    low, high = (f"{bound:.{digits}f}" for bound in (speedup.low, speedup.high))
    return f"{sign}{speedup.estimate:.{digits}f}x ({low}-{high})"


def verdict_cell(candidate: CandidateResult) -> str:
    """Return the status, and the code where it adds something."""
    if candidate.status in {Status.WON, Status.TIED}:
        return candidate.status.value
    return f"{candidate.status.value} {candidate.code.value}"


def origin_cell(candidate: CandidateResult) -> str:
    """Return where a candidate came from: its ancestors, the nearest first, or what it repeats."""
    if candidate.duplicate_of:
        return f"same as {candidate.duplicate_of}"
    if not candidate.lineage:
        return candidate.origin.value
    return f"{candidate.origin.value} of {' < '.join(reversed(candidate.lineage))}"


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


def _digits(estimate: float) -> int:
    """Return decimals that show three significant digits of a speedup."""
    return 2 if estimate < 10 else 1 if estimate < 100 else 0  # noqa: PLR2004 - powers of ten
