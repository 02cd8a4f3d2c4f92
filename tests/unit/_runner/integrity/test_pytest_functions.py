"""Names of what has replaced functions of the test runner."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from codeflash_parallel._runner.channel.record_channel import RecordBuffer
from codeflash_parallel._runner.integrity import pytest_functions
from codeflash_parallel._runner.integrity.pytest_functions import PytestIntegrity


def integrity() -> PytestIntegrity:
    places = SimpleNamespace(relative=lambda path: Path(path).name if "project" in path else None)
    return PytestIntegrity(places, RecordBuffer())


def made(file: str, text: str = "def replaced(): return 1") -> Any:
    space: dict[str, Any] = {"__name__": "made"}
    exec(compile(text, file, "exec"), space)
    return space["replaced"]


def test_a_replaced_function_of_the_runner_is_told_once() -> None:
    from _pytest.runner import CallInfo

    found = integrity()
    before = CallInfo.__dict__["from_call"]
    CallInfo.from_call = made("/project/m.py")  # type: ignore[method-assign]
    try:
        found._glance()
    finally:
        CallInfo.from_call = before  # type: ignore[method-assign]
    found._glance()
    found.tell()
    found.tell()
    (record,) = found._channel.records
    assert record["names"] == ["_pytest.runner.CallInfo.from_call by made.replaced in m.py"]


def test_what_a_conftest_puts_in_is_told_by_what_it_does() -> None:
    found = integrity()
    texts = [
        found._described(made(file, text))
        for file in ("/project/conftest.py", "/site/plugin.py")
        for text in ("def replaced(): return 1", "\n\ndef replaced(): return 1", "def replaced(): return 2")
    ]
    assert texts[0] == texts[1] == texts[3] != texts[2]
    assert texts[0].startswith("made.replaced, ")


def test_constants_tell_types_apart() -> None:
    assert pytest_functions._constant(1) != pytest_functions._constant(True)
    assert pytest_functions._constant(frozenset("ab")) == pytest_functions._constant(frozenset("ba"))
