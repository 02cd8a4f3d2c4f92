"""What is shown of a selftest: lines, totals, bounds. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from math import comb
from typing import Any

from selftest.entries import Entry
from selftest.judging import Became, Outcome, Totals, totals

#: Halvings of [0, 1]: more than a double can tell apart.
BISECTIONS = 60

#: Chance that a bound on a rate errs.
BOUND_ALPHA = 0.05

COLUMNS = ("entry", "level", "outcome", "code", "fooled", "caught by")


def rows(outcomes: Sequence[Outcome]) -> list[tuple[str, ...]]:
    """Return the table's lines."""
    return [(one.name, one.level, _became(one), one.code, _fooled(one), one.caught_by) for one in outcomes]


def _became(one: Outcome) -> str:
    if one.became is Became.NOT_STOPPED:
        return f"needs {one.needs}"
    unexpected = "" if one.expected else ", with another code than expected"
    credit = f" ({one.credited:.2f}x)" if one.credited > 1 else ""
    return f"{one.became}{credit}{unexpected}"


def _fooled(one: Outcome) -> str:
    if one.fooled is None:
        return ""
    gain = f" {one.fooled.gain:.3g}x" if one.fooled.gain else ""
    return (", ".join(one.fooled.by) + gain) if one.fooled.by else f"did not fool the naive gate here{gain}"


def bounds(counts: Totals) -> dict[str, float]:
    """Return 95 % upper bounds of the rates, exact (Clopper and Pearson)."""
    wrong, judged = counts.accepted + counts.credited + counts.escaped, counts.stopped
    pairs = {"wrong_accepted": (wrong, wrong + judged), "honest_rejected": (counts.rejected, counts.honest)}
    return {name: round(most(hits, tries), 4) for name, (hits, tries) in pairs.items() if tries}


def most(hits: int, tries: int) -> float:
    """Return the largest chance at which no more than `hits` of `tries` would come with a chance of 5 %.

    The one-sided bound of Clopper and Pearson (1934); without a hit about three over `tries`.
    """
    low, high = hits / tries, 1.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if _up_to(hits, tries, middle) > BOUND_ALPHA else (low, middle)
    return high


def _up_to(hits: int, tries: int, chance: float) -> float:
    return sum(comb(tries, k) * chance**k * (1 - chance) ** (tries - k) for k in range(hits + 1))


def summary(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the totals as sentences."""
    counts = totals(outcomes)
    upper = bounds(counts)
    said = []
    if counts.attacks + counts.not_fooling:
        said.append(
            f"Attacks: {counts.attacks} count, {counts.stopped} of them stopped; wrong accepted: "
            f"{counts.accepted}, cheats credited: {counts.credited}, escaped: {counts.escaped}, not stopped "
            f"at a level that does not promise it: {counts.not_stopped}, too noisy to tell: "
            f"{counts.too_noisy}, without a verdict: {counts.without_verdict}."
        )
        by = Counter(one.caught_by for one in outcomes if one.caught_by and one.counts)
        said.append("Caught by: " + ", ".join(f"{name} {number}" for name, number in by.most_common()) + ".")
    if counts.not_fooling:
        said.append(f"{counts.not_fooling} did not fool the naive gate here and are counted apart.")
    if counts.honest:
        said.append(f"Honest candidates: {counts.honest}, rejected: {counts.rejected}.")
    if counts.not_run:
        said.append(f"Refused before they ran, as the baseline was, and counted apart: {counts.not_run}.")
    if counts.skipped:
        said.append(f"Skipped: {counts.skipped}.")
    said += [f"95 % bound of {name.replace('_', ' ')}: {100 * rate:.1f} %." for name, rate in upper.items()]
    return said


def markdown(outcomes: Sequence[Outcome]) -> str:
    """Return table and totals as Markdown."""
    lines = [COLUMNS, ("---",) * len(COLUMNS), *rows(outcomes)]
    table = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
    return f"{table}\n\n" + "\n".join(f"- {sentence}" for sentence in summary(outcomes)) + "\n"


def as_values(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return everything as JSON values."""
    counts = totals(outcomes)
    return {
        "totals": asdict(counts),
        "bounds": bounds(counts),
        "outcomes": [asdict(one) for one in outcomes],
    }


def listed(entries: Sequence[Entry]) -> Iterator[str]:
    """Yield a line for each entry: family, name, line of the catalogue."""
    for entry in entries:
        about = f" ({entry.about})" if entry.about else ""
        yield f"{entry.family:<10} {entry.name:<36} {entry.entry or entry.function}{about}"
