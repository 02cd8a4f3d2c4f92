"""Choose few combinations of factors such that every two levels meet in one of them. Pure."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, product

Row = dict[str, str]
#: Two factors, each with one of its levels.
Pair = tuple[tuple[str, str], tuple[str, str]]
#: Rows drawn for each one that is taken: more find a shorter list, and take longer.
_DRAWN = 30


def pairs_of(factors: Mapping[str, Sequence[str]], fits: Callable[[Row], bool]) -> set[Pair]:
    """Return every pair of levels of two factors that may meet.

    Args:
        factors: levels by the name of their factor.
        fits: says of a row, whole or of two factors, whether its levels go together.
    """
    found = set()
    for one, other in combinations(sorted(factors), 2):
        for a, b in product(factors[one], factors[other]):
            if fits({one: a, other: b}):
                found.add(((one, a), (other, b)))
    return found


def covered_by(row: Row) -> set[Pair]:
    """Return the pairs that meet in a row."""
    return set(combinations(sorted(row.items()), 2))


def covering_rows(
    factors: Mapping[str, Sequence[str]], fits: Callable[[Row], bool], seed: int = 1
) -> list[Row]:
    """Return rows in which every pair that may meet does; greedy, and the same for the same seed.

    Each row starts with a pair that is still open and takes, factor by factor, the level with which most
    open pairs meet. `fits` must refuse by pairs alone: of a row whose pairs all fit, it may not complain.
    """
    dice = random.Random(seed)
    open_pairs = pairs_of(factors, fits)
    rows: list[Row] = []
    while open_pairs:
        start = dict(min(open_pairs))
        drawn = (_grown(start, factors, fits, open_pairs, dice) for _ in range(_DRAWN))
        best = max(drawn, key=lambda row: len(covered_by(row) & open_pairs))
        open_pairs -= covered_by(best)
        rows.append(best)
    return rows


def _grown(
    start: Row,
    factors: Mapping[str, Sequence[str]],
    fits: Callable[[Row], bool],
    open_pairs: set[Pair],
    dice: random.Random,
) -> Row:
    row = dict(start)
    rest = [name for name in factors if name not in row]
    dice.shuffle(rest)
    for name in rest:
        levels = [level for level in factors[name] if fits({**row, name: level})]
        gains = {level: len(covered_by({**row, name: level}) & open_pairs) for level in levels}
        best = [level for level in levels if gains[level] == max(gains.values())]
        row[name] = dice.choice(best)
    return row
