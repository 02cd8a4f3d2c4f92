"""Every project of `fixtures/`, as a user would run it, against its `expected.toml`."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import pytest
from expectations import assert_expected, assert_known
from harness import EXECUTOR, Fixture, Place, all_fixtures, assert_nothing_left, assert_same, picture

#: Most likely to be got wrong by a shortcut: `test_new_process_and_warm.py` runs it in the gate, once like this and
#: once in new processes, and holds it against its `expected.toml` there.
TRIED_BOTH_WAYS = ("decorator_copies_code",)
#: And this one `test_commands.py`, which needs what is stored of its run.
SHOWN = "weak_tests"


def _parameters() -> list[Any]:
    marks = {name: getattr(pytest.mark, name) for name in ("slow", "witness", "campaign")}
    return [
        pytest.param(
            f,
            id=f.name.replace(" ", "_").encode("ascii", "ignore").decode(),
            marks=[mark for name, mark in marks.items() if f.expected.get(name)],
        )
        for f in all_fixtures()
        if f.name not in (*TRIED_BOTH_WAYS, SHOWN)
    ]


@pytest.mark.parametrize("fixture", _parameters())
def test_fixture(fixture: Fixture, build: Callable[[Fixture], Place]) -> None:
    absent = [name for name in fixture.expected.get("needs", ()) if importlib.util.find_spec(name) is None]
    if absent:
        pytest.skip(f"this interpreter lacks {', '.join(absent)}")
    place = build(fixture)
    before = picture(place.repository)
    finished = place.run(*arguments(fixture, place), *EXECUTOR)
    assert_same(before, picture(place.repository))
    assert_nothing_left(place)
    assert_expected(fixture.expected, finished)


def arguments(fixture: Fixture, place: Place) -> list[str]:
    """Return the command line that the expectations describe."""
    expected = fixture.expected
    functions = [text for name in expected["functions"] for text in ("--function", name)]
    options = [option.format(venv=place.venv, state=place.state) for option in expected.get("options", ())]
    # Servers are started for every slot: a second one costs more than it gains where there are a few candidates.
    slots = [] if "-j" in options else ["-j", "1"]
    command = [expected.get("command", "check"), *functions, "--candidates", str(fixture.candidates)]
    return [*command, "--output-format", "json", *slots, *options]


@pytest.mark.parametrize("wrong", [{"misspelt": "a"}, {"candidates": {"a": {"code": "OK", "misspelt": 1}}}])
def test_a_key_that_nobody_reads_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(AssertionError, match="misspelt"):
        assert_known(wrong)
