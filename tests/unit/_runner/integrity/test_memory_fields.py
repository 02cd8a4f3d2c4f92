"""Fields of objects, read by the kernel: every change shows, no look does, and nothing is written."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from types import CellType, FunctionType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel._runner.integrity import memory_fields

pytestmark = pytest.mark.skipif(
    memory_fields._fields() is None, reason="this interpreter does not keep these fields"
)


def reader(
    spaces: tuple[Any, ...] = (),
    classes: tuple[type, ...] = (),
    functions: tuple[FunctionType, ...] = (),
    cells: tuple[CellType, ...] = (),
) -> memory_fields.MemoryFields:
    found = memory_fields.reader(spaces, classes, functions, cells)
    assert found is not None
    return found


CHANGES: list[Callable[[dict[str, Any]], object]] = [
    lambda space: space.update(a=object()),
    lambda space: space.update(new=1),
    lambda space: space.pop("a"),
    lambda space: space.setdefault("new"),
    lambda space: exec("a = 'other'", space),
    lambda space: exec("global a\na = [1]", space),
    lambda space: space.clear(),
    lambda space: space.__ior__({"a": None}),
]
LOOKS: list[Callable[[dict[str, Any]], object]] = [
    lambda space: space["a"],
    sorted,
    lambda space: list(space.items()),
    lambda space: space.copy(),
    lambda space: space == {},
    lambda space: eval("a", dict(space)),
]


@given(st.lists(st.sampled_from(LOOKS)), st.sampled_from(CHANGES))
def test_a_namespace_is_another_one_after_each_change_and_after_no_look(
    looks: list[Callable[[dict[str, Any]], object]], change: Callable[[dict[str, Any]], object]
) -> None:
    space: dict[str, Any] = {"a": 1, "__builtins__": {}}
    other: dict[str, Any] = {}
    fields = reader((other, space))
    for look in looks:
        look(space)
    assert fields.changed() == []
    change(space)
    assert fields.changed() == [1]


def test_the_words_of_functions_cells_and_classes() -> None:
    held = [1]

    def function(value: int = 1) -> list[int]:
        return held

    class Kind:
        pass

    assert function.__closure__ is not None
    cell = function.__closure__[0]
    fields = reader((vars(Kind),), (Kind,), (function,), (cell,))
    assert (function(), sys.getrefcount(function) > 0, fields.changed()) == ([1], True, [])
    function.__code__ = function.__code__.replace(co_name="other")
    function.__defaults__ = (2,)
    cell.cell_contents = [2]
    assert fields.changed() == [2, 3, 4]


def test_more_words_than_one_call_of_the_kernel_takes() -> None:
    spaces: list[dict[str, int]] = [{"a": 1} for _ in range(3000)]
    fields = reader(tuple(spaces))
    for number in (0, 1023, 1024, 2999):
        spaces[number]["a"] = 2
    assert fields.changed() == [0, 1023, 1024, 2999]


def test_a_fork_has_the_words_of_its_parent() -> None:
    space = {"a": 1}
    fields = reader((space,))
    pid = os.fork()
    if pid == 0:
        same = not fields.changed()
        space["a"] = 2
        os._exit(0 if same and fields.changed() == [0] else 1)
    assert os.waitpid(pid, 0)[1] == 0


def test_where_a_test_replaces_getpid_this_process_is_read_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    space = {"a": 1}
    fields = reader((space,))
    pid = os.fork()  # it has the memory as it was
    if pid == 0:
        signal.pause()
        os._exit(0)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(os, "getpid", lambda: pid)
            space["a"] = 2
            assert fields.changed() == [0]
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_where_the_kernel_reads_nothing_any_more_everything_is_suspect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spaces = {"a": 1}, {"b": 2}
    fields = reader(spaces)
    monkeypatch.setattr(memory_fields, "_read", lambda *_: -1)
    assert fields.changed() == [0, 1]


def test_where_the_kernel_reads_nothing_there_is_no_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_fields, "_read", lambda *_: -1)
    space = {"a": 1}
    assert memory_fields.reader((space,), (), (), ()) is None
