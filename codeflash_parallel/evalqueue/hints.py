"""Which submitters are more urgent, by what they have had: hooks of the strategy `priority`. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

#: A hint moves a submitter by this many priorities at most: ageing makes up for as many.
MOST_RANKS = 4


class HintRow(NamedTuple):
    """A submitter that has jobs waiting.

    Args:
        since_verdict_s: seconds since its last result; since ever, if it has none: infinity.
        since_improvement_s: the same, of its last result that named a winner.
    """

    share: str
    submitter: str
    queued: int
    running: int
    since_verdict_s: float
    since_improvement_s: float


#: Rows → a rank of each, in their order; 0 is the most urgent.
Hint = Callable[[Sequence[HintRow]], Sequence[int]]


def recently_improved(rows: Sequence[HintRow]) -> Sequence[int]:
    """Put those first who found an improvement most recently."""
    return _ranks([row.since_improvement_s for row in rows])


def longest_without_a_verdict(rows: Sequence[HintRow]) -> Sequence[int]:
    """Put those first who have been without a verdict for longest."""
    return _ranks([-row.since_verdict_s for row in rows])


def names_winner(result: str) -> bool:
    """Say whether the result of a job, as JSON, is that of a run that has a winner."""
    try:
        found = json.loads(result)
    except ValueError:
        return False
    document = found.get("document") if isinstance(found, dict) else None
    return isinstance(document, dict) and document.get("winner") is not None


#: The hints that ship, by name.
HINTS: Mapping[str, Hint] = MappingProxyType(
    {"recently-improved": recently_improved, "longest-without-a-verdict": longest_without_a_verdict}
)


def ranks(hint: Hint, rows: Sequence[HintRow]) -> dict[tuple[str, str], int]:
    """Return the ranks that a hint gives, kept between 0 and `MOST_RANKS`.

    Raises:
        ValueError: it has not given one whole number for each row.
    """
    given = list(hint(rows))
    if len(given) != len(rows) or not all(isinstance(rank, int) for rank in given):
        raise ValueError(f"{len(rows)} rows got {given!r}")
    return {
        (row.share, row.submitter): min(MOST_RANKS, max(0, rank))
        for row, rank in zip(rows, given, strict=True)
    }


def _ranks(values: Sequence[float]) -> list[int]:
    """Return the place of each value among the different ones."""
    places = {value: place for place, value in enumerate(sorted(set(values)))}
    return [places[value] for value in values]
