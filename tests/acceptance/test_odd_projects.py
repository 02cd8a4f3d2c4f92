"""Candidates and projects that are out of the ordinary: what `check` says, with and without `--fresh`."""

from __future__ import annotations

from collections.abc import Callable

from both_ways import assert_agreement, both_ways
from harness import Fixture, Place, load_fixture


def test_who_changes_more_than_the_target_is_asked_for_all_tests(build: Callable[[Fixture], Place]) -> None:
    fixture = load_fixture("unselected_tests")
    place = build(fixture)
    candidates = ["--candidates", str(fixture.candidates), "--output-format", "json"]
    found = both_ways(place, "check", "--function", "lists.py::unique", *candidates)
    assert_agreement(found)
    assert {judged.id: judged.warm for judged in found} == {
        "faster": "undecided/NOT_RACED",
        "neutral": "undecided/NOT_RACED",
        "wrong": "rejected/TESTS_FAILED",
        "wrong_elsewhere": "rejected/TESTS_FAILED",
    }
