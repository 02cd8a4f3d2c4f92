from __future__ import annotations

from collections.abc import Callable, Iterable
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mutations import drawn
from rewrites import NEUTRAL, neutral_sites

SOURCE = dedent('''
    """A module — with a dash."""


    def mean(values, *, empty=0, name="é", at_most=None):
        """Return the mean."""
        total = 0
        if values and at_most is not None:
            values = values[:at_most]
        for value in values:
            if value is None or value != value:
                continue
            elif 100 < value < 1000:
                total += value // 2
                break
            else:
                total += value
        if not values:
            raise ValueError(f"no values: {values!r} {total + 1:>{3}} of {name}")
        return total / len(values) if len(values) > 0 else empty


    class Words:
        """Of a text."""

        def __init__(self, text):
            self.text = text

        def longest(self, count):
            """Return so many words,

            the longest first.
            """
            words = [word for word in self.text.split() if word not in ("a", "the")]
            found = []
            while words and len(found) < count:
                found.append(max(words, key=len))
                words.remove(found[-1])
            if isinstance(count, (int, float)):
                return found
            else:
                return tuple(found)
''')
NUMBERS = st.lists(st.one_of(st.none(), st.integers(-9, 2000)), max_size=6)


def test_every_kind_has_sites() -> None:
    assert {site.kind for site in neutral_sites(SOURCE)} == NEUTRAL.keys()


def _names(text: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(text, "rewritten", "exec"), names)  # the text is ours
    return names


def _outcome(function: Callable[..., object], *arguments: object, **named: object) -> object:
    try:
        return function(*arguments, **named)
    except ValueError as error:
        return str(error)


ORIGINAL = _names(SOURCE)
REWRITTEN = [(one.kind, _names(one.text)) for one in drawn(SOURCE, neutral_sites(SOURCE), 1000, 1)]


@given(values=NUMBERS, at_most=st.one_of(st.none(), st.integers(0, 6)))
def test_numbers_come_out_the_same(values: list[int | None], at_most: int | None) -> None:
    expected = _outcome(ORIGINAL["mean"], values, at_most=at_most)
    for kind, names in REWRITTEN:
        assert _outcome(names["mean"], values, at_most=at_most) == expected, kind


@given(text=st.text("a the bcd"), count=st.sampled_from([0, 1, 2.0, 9, True]))
def test_words_come_out_the_same(text: str, count: float) -> None:
    expected = ORIGINAL["Words"](text).longest(count)
    for kind, names in REWRITTEN:
        assert names["Words"](text).longest(count) == expected, kind


@pytest.mark.parametrize(
    "lines",
    [
        ["def f(iter):", "    for x in iter: print(x)"],
        ["def f(x):", "    if x: return locals()", "    else: return 0"],
        ["def f(x):", "    return super().f(x) if x else 1"],
        ["from m import format", "def f(x):", "    return f'{x}'"],
    ],
)
def test_who_would_notice_is_left_alone(lines: Iterable[str]) -> None:
    assert {site.kind for site in neutral_sites("\n".join(lines))} <= {"something_before"}


def test_a_name_of_two_scopes_is_not_renamed() -> None:
    lines = ["def f(v):", "    e = [e for e in v]", "    try:", "        return e"]
    lines += ["    except OSError as e:", "        raise"]
    assert "renamed_local" not in {site.kind for site in neutral_sites("\n".join(lines))}


def test_docstrings_stay_as_they_are() -> None:
    was = _names(SOURCE)["Words"].longest.__doc__
    assert "\n" in was
    for kind, names in REWRITTEN:
        assert names["Words"].longest.__doc__ == was, kind
