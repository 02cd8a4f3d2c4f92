"""Names of what has replaced functions of the test runner."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from codeflash_parallel._runner.channels import RecordBuffer
from codeflash_parallel._runner.integrity import pytest_integrity
from codeflash_parallel._runner.integrity.pytest_integrity import CanaryTests, PytestIntegrity


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
    assert pytest_integrity._constant(1) != pytest_integrity._constant(True)
    assert pytest_integrity._constant(frozenset("ab")) == pytest_integrity._constant(frozenset("ba"))


pytest_plugins = ["pytester"]
SUITE = """
import pytest
VALUE = 3
@pytest.fixture(params=[1, 2], scope="module")
def number(request): return request.param
def test_plain(): pass
def test_number(number): pass
class TestClass:
    def test_method(self): pass
"""


def canary(after: str) -> dict[str, Any]:
    return {
        "name": f"test_made_{after[-6:]}",
        "after": f"test_it.py::{after}",
        "lines": ["assert VALUE == 4"],
    }


def test_canaries_stand_behind_their_neighbours_and_fail(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    orders = [canary("test_plain"), canary("TestClass::test_method"), canary("test_absent")]
    made = CanaryTests(orders, channel := RecordBuffer())
    items = pytester.genitems([pytester.getmodulecol(SUITE)])
    made.put_between(items, lambda nodeid: "test_it.py::" + nodeid.partition("::")[2])
    names = [item.name for item in items]
    assert names.index("test_made__plain") == names.index("test_plain") + 1
    assert names.index("test_made_method") == names.index("test_method") + 1
    assert names[-1] == "test_made_absent"
    assert channel.records[0]["name"] == "canaries"
    canaries = [item for item in items if made.has(item.nodeid)]
    assert len(canaries) == 3
    for item in canaries:
        function: Any = item.function
        with pytest.raises(AssertionError):
            function(None) if "TestClass" in item.nodeid else function()
    assert not made.has("test_it.py::test_plain")
