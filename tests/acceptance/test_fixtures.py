"""Every project of `fixtures/`, as a user would run it, against its `expected.toml`."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from harness import Finished, Fixture, Place, all_fixtures, assert_nothing_left, assert_same, picture


def _parameters() -> list[Any]:
    marks = {"slow": pytest.mark.slow, "campaign": pytest.mark.campaign}
    return [
        pytest.param(
            f,
            id=f.name.replace(" ", "_").encode("ascii", "ignore").decode(),
            marks=[mark for name, mark in marks.items() if f.expected.get(name)],
        )
        for f in all_fixtures()
    ]


@pytest.mark.parametrize("fixture", _parameters())
def test_fixture(fixture: Fixture, build: Callable[[Fixture], Place]) -> None:
    absent = [name for name in fixture.expected.get("needs", ()) if importlib.util.find_spec(name) is None]
    if absent:
        pytest.skip(f"this interpreter lacks {', '.join(absent)}")
    place = build(fixture)
    before = picture(place.repository)
    finished = place.run(*arguments(fixture, place))
    assert_same(before, picture(place.repository))
    assert_nothing_left(place)
    assert_expected(fixture.expected, finished)


def arguments(fixture: Fixture, place: Place) -> list[str]:
    """Return the command line that the expectations describe."""
    expected = fixture.expected
    functions = [text for name in expected["functions"] for text in ("--function", name)]
    options = [option.format(venv=place.venv, state=place.state) for option in expected.get("options", ())]
    command = expected.get("command", "check")
    return [command, *functions, "--candidates", str(fixture.candidates), "--output-format", "json", *options]


def assert_expected(expected: Mapping[str, Any], finished: Finished) -> None:
    """Hold a run's document against the expectations."""
    data = finished.document
    said = {c["id"]: f"{c['status']}/{c['code']}: {c['reason']}" for c in data["candidates"]}
    context = f"exit {finished.status}, {data['verdict']}, {data['error']}, {said}\n{finished.errors[-3000:]}"
    if "error_family" in expected:
        assert data["error"] is not None, context
        assert data["error"]["family"] == expected["error_family"], context
        assert expected["error_message"] in data["error"]["message"], context
    else:
        assert data["error"] is None, context
        assert data["complete"], context
        assert said.keys() == expected["candidates"].keys(), context
    for candidate in data["candidates"]:
        assert_candidate(expected["candidates"][candidate["id"]], candidate, context)
    assert finished.status == expected["exit"], context
    assert data["verdict"] == expected.get("verdict"), context
    assert data["winner"] == expected.get("winner"), context
    assert data["quarantined"] == expected.get("quarantined", []), context
    for words in expected.get("warnings", ()):
        assert any(words in warning for warning in data["warnings"]), context


def assert_candidate(expected: Mapping[str, Any], candidate: Mapping[str, Any], context: str) -> None:
    """Hold one candidate against its expectations."""
    assert candidate["status"] in _choices(expected["status"]), context
    assert candidate["code"] in _choices(expected["code"]), context
    assert candidate["reason"].strip(), context
    if "tests_fail" in expected:
        assert (candidate["tests"]["failed"] > 0) == expected["tests_fail"], context
    for name in ("differing", "unstable"):
        if name in expected:
            assert candidate["values"][name] == expected[name], context
    if "differing" in expected:
        assert candidate["values"]["compared"] > 0, context


def _choices(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value
