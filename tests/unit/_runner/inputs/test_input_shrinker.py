"""Simpler inputs: of the same types, smaller in one place, in a fixed order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel._runner.inputs.input_shrinker import simpler


@given(st.lists(st.one_of(st.integers(), st.text(max_size=5), st.booleans()), max_size=8))
def test_simpler_lists_have_the_same_types_and_never_more_items(value: list[Any]) -> None:
    for other in simpler(value, 2):
        assert type(other) is list
        assert len(other) <= len(value)
        assert set(map(type, other)) <= set(map(type, value))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (5, [0, 1, -1, 2, 4]),
        (0, []),
        (True, []),
        (2.5, [0.0, 1.0, 2.0, 1.25]),
        ("ab", ["a", "b", "", "b", "a", "a", "b"]),
    ],
)
def test_atoms_become_smaller(value: object, expected: list[object]) -> None:
    assert list(simpler(value, 2)) == expected


def test_keyword_arguments_are_all_kept() -> None:
    made = list(simpler(((1,), {"key": "ab"}), 4))
    assert ((0,), {"key": "ab"}) in made
    assert ((1,), {"key": "a"}) in made
    assert all(kwargs.keys() == {"key"} and len(args) == 1 for args, kwargs in made)
