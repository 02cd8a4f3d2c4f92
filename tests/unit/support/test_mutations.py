from __future__ import annotations

import ast
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mutations import IN_FUNCTIONS, IN_MODULES, drawn, functions_of, sites

SOURCE = dedent('''
    """A module — with a dash."""

    import math
    from typing import Any

    RATE: int = 3
    LIMIT = 4


    class Counter:
        size = 2

        @property
        def double(self) -> int:
            """Twice the size."""
            return self.size * 2


    def mean(values: Any, *, empty=0, name="é") -> float:
        """Return the mean."""
        total = 0
        for value in values:
            if value is None or value != value:
                continue
            total += value
        if not values:
            raise ValueError(f"no values: {values!r} {total + 1}")
        return total / len(values) if len(values) > 0 else empty
''')


def test_every_kind_has_sites() -> None:
    assert {site.kind for site in sites(SOURCE)} == IN_FUNCTIONS.keys() | IN_MODULES.keys()


@pytest.mark.slow
@given(seed=st.integers(0, 2**32 - 1))
def test_mutants_parse_and_are_other_programs(seed: int) -> None:
    found = drawn(SOURCE, sites(SOURCE), 20, seed)
    programs = {ast.dump(ast.parse(mutant.text)) for mutant in found}
    assert len(programs) == len(found) == 20
    assert ast.dump(ast.parse(SOURCE)) not in programs


def test_changes_inside_of_named_functions_only() -> None:
    double = functions_of(ast.parse(SOURCE))["Counter.double"]
    assert double.end_lineno is not None
    lines = {site.place.lineno for site in sites(SOURCE, ["Counter.double"]) if site.kind in IN_FUNCTIONS}  # type: ignore[attr-defined]
    assert lines <= set(range(double.lineno, double.end_lineno + 1))


def test_the_same_seed_draws_the_same() -> None:
    assert drawn(SOURCE, sites(SOURCE), 5, 1) == drawn(SOURCE, sites(SOURCE), 5, 1)
