"""What of the outcomes of timed calls is compared."""

from __future__ import annotations

from typing import Any

import pytest

from codeflash_parallel._runner.bench.call_workload import (
    ALIKE,
    FLOATLESS,
    ROUNDED,
    VALUES,
    batch_of,
    outcome,
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (0.1 + 0.2, 0.3),
        ({"a": [1, (2.0, 1e300)]}, {"a": [1, (2.0 + 1e-15, 1e300)]}),
        (-0.0, 0.0),
        (complex(0.1 + 0.2, 1), complex(0.3, 1)),
    ],
)
def test_twins_may_differ_by_rounding(one: Any, other: Any) -> None:
    assert outcome(one, VALUES) != outcome(other, VALUES)
    assert outcome(one, ROUNDED) == outcome(other, ROUNDED)


@pytest.mark.parametrize(
    ("one", "other"), [(1.0, 1.0 + 1e-7), ([0.0, 2.0], [2.0, 0.0]), (1.0, 1), ("a", "b"), ([1.5], (1.5,))]
)
def test_twins_may_not_differ_by_more(one: Any, other: Any) -> None:
    assert outcome(one, ROUNDED) != outcome(other, ROUNDED)


def test_where_a_distance_is_tolerated_floats_are_the_checks_business() -> None:
    assert outcome([1.0, 2], FLOATLESS) == outcome([1.5, 2], FLOATLESS) != outcome([1.5, 3], FLOATLESS)


def test_of_hashes_it_is_compared_which_are_equal() -> None:
    def digest_of(*values: object) -> str:
        entries = [(lambda value=value: value, (), {}, 0) for value in values]
        batch = batch_of(entries, len(values), (), None, compare=ALIKE)
        batch.run()
        return str(batch.check()["digest"])

    assert digest_of(71, 12, 71) == digest_of(5, -4, 5) != digest_of(5, 5, 5)
    assert digest_of(71, 12) != digest_of("a", "b")
