from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st
from pairwise import Row, covered_by, covering_rows, pairs_of

FACTORS = st.dictionaries(
    st.sampled_from("abcde"), st.lists(st.sampled_from("12345"), min_size=1, unique=True), min_size=2
)


def anything(_: Row) -> bool:
    return True


@given(FACTORS, st.integers(0, 3))
def test_every_pair_is_covered(factors: dict[str, list[str]], seed: int) -> None:
    rows = covering_rows(factors, anything, seed)
    assert set().union(*map(covered_by, rows)) == pairs_of(factors, anything)
    assert all(row.keys() == factors.keys() for row in rows)


def test_what_does_not_fit_never_meets_and_the_list_is_short() -> None:
    factors = {name: [str(n) for n in range(6)] for name in "abcd"}

    def fits(row: Row) -> bool:
        return not (row.get("a") == "1" and row.get("b") in {"2", "3"})

    rows = covering_rows(factors, fits)
    assert all(map(fits, rows))
    assert set().union(*map(covered_by, rows)) == pairs_of(factors, fits)
    assert len(rows) < 60 < len(list(product(*factors.values())))
    assert rows == covering_rows(factors, fits)
