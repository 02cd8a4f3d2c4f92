"""Canaries between the project's tests: where they stand, and that they run as their neighbours do."""

from __future__ import annotations

from typing import Any

import pytest

from codeflash_parallel._runner.channel.record_channel import RecordBuffer
from codeflash_parallel._runner.integrity.canary_tests import CanaryTests

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
