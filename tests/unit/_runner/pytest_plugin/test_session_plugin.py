"""Records of phases, and texts on failures."""

from __future__ import annotations

from typing import Any

import pytest

from codeflash_parallel._runner.pytest_plugin.session_plugin import (
    PhaseRecords,
    native_failure,
    plain_failure,
    shortened,
)


class Channel:
    def __init__(self) -> None:
        self.records: list[tuple[str, dict[str, Any]]] = []

    def write(self, kind: str, /, **fields: Any) -> None:
        self.records.append((kind, fields))


def test_a_test_that_simply_passes_is_one_record() -> None:
    channel = Channel()
    phases = PhaseRecords(channel)
    for when, ns in (("setup", 1), ("call", 2), ("call", 3), ("teardown", 4)):
        phases.passed("a", when, ns)
    assert channel.records == [("passed", {"id": "a", "ns": [1, 5, 4]})]


def test_another_phase_comes_after_those_that_are_held() -> None:
    channel = Channel()
    phases = PhaseRecords(channel)
    phases.passed("a", "setup", 1)
    phases.passed("b", "setup", 2)
    phases.add({"id": "a", "when": "call", "outcome": "failed"})
    phases.passed("a", "teardown", 3)
    phases.flush()
    told = [(fields["id"], fields["when"], fields["outcome"]) for _, fields in channel.records]
    assert told == [
        ("a", "setup", "passed"),
        ("a", "call", "failed"),
        ("a", "teardown", "passed"),
        ("b", "setup", "passed"),
    ]


def test_a_failure_is_told_with_its_frames_and_its_cause() -> None:
    def fail() -> None:
        try:
            int("x")
        except ValueError as error:
            raise KeyError("shown") from error

    with pytest.raises(KeyError) as caught:
        fail()
    assert plain_failure(caught) == "KeyError: 'shown'"
    text = native_failure(caught)
    assert text.startswith("KeyError: 'shown'\n")
    assert 'raise KeyError("shown") from error' in text
    assert "after ValueError: invalid literal" in text


def test_a_long_message_keeps_its_head_and_its_tail() -> None:
    text = shortened("a" * 9_000 + "b" * 9_000)
    assert len(text) <= 8_000
    assert (text[0], text[-1]) == ("a", "b")
    assert shortened("short") == "short"
