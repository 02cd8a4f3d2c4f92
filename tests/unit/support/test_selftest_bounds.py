"""Bounds of rates that a selftest quotes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftest.table import most


@pytest.mark.slow
@given(st.integers(1, 500), st.data())
def test_a_bound_lies_above_the_rate(count, data):
    hits = data.draw(st.integers(0, count))

    bound = most(hits, count)

    assert hits / count <= bound <= 1
    if not hits:
        assert bound < 3 / count


def test_known_bounds():
    assert most(1, 100) == pytest.approx(0.0466, abs=0.0005)
    assert most(10, 10) == 1.0
