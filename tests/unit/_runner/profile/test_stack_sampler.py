"""Where time goes, looked at by a real timer."""

from __future__ import annotations

import importlib
import importlib.util
import opcode
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from codeflash_parallel._runner.profile import stack_sampler

CODE = """
import re

def shown(match):
    return match.group(0)

def sub(text):
    return re.sub("[a-z]+[0-9]", shown, text)

def held(lock):
    return sum(shown(match) is not None for match in lock[1])
"""


class Told:
    """Takes the one record that is written."""

    def write(self, kind: str, **fields: Any) -> None:
        self.kind, self.fields = kind, fields


@pytest.fixture
def project(tmp_path: Path) -> Iterator[ModuleType]:
    path = tmp_path / "codeflash_located.py"
    path.write_text(CODE)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    before = signal.getsignal(signal.SIGALRM)
    yield module
    signal.signal(signal.SIGALRM, before)
    del sys.modules[path.stem]


def looked_at(module: ModuleType, name: str, *args: object) -> dict[str, Any]:
    path = Path(module.__file__ or "")
    targets = [{"path": path.name, "qualname": "shown"}]
    told = Told()
    locator = stack_sampler.StackSampler(
        {"root": str(path.parent), "locate": 0.001, "targets": targets}, told
    )
    run = locator.pytest_runtest_protocol()
    next(run)
    for _ in range(3):
        getattr(module, name)(*args)
    list(run)
    locator.pytest_sessionfinish()
    assert told.kind == "located"
    return told.fields


def test_time_of_c_code_is_not_that_of_the_function_which_it_calls_back(project: ModuleType) -> None:
    found = looked_at(project, "sub", " ".join("abcdefgh" * 80 + str(n % 10) for n in range(9000)))
    ours, target = (found["seen"][f"codeflash_located.py::{name}"] for name in ("sub", "shown"))
    assert target < ours / 2
    assert {tuple(names) for names, _ in found["chains"]} <= {("codeflash_located.py::sub",)}
    assert found["unfit"] == []


def test_a_look_is_not_looked_at(project: ModuleType) -> None:
    """Looks that took longer than the interval met each other, up to the end of the stack."""
    slow = SlowToCopy()
    found = looked_at(project, "held", (slow, [re.match("a", "a")] * 100_000))
    assert found["unfit"] == []
    assert slow.most == 1


class SlowToCopy:
    """Takes many intervals to copy, and counts how many copies are being made at once."""

    made = most = 0

    def __reduce__(self) -> tuple[Any, ...]:
        self.made += 1
        self.most = max(self.most, self.made)
        until = time.monotonic() + 0.02
        while time.monotonic() < until:
            pass
        self.made -= 1
        return (int, ())


def test_a_function_whose_arguments_cannot_be_copied_is_named(project: ModuleType) -> None:
    matches = [re.match("a", "a")] * 100_000
    found = looked_at(project, "held", (sys._getframe(), matches))
    assert found["unfit"] == ["codeflash_located.py::held"]


def test_it_can_be_imported_where_functions_begin_with_no_instruction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in Python 3.9 and 3.10."""
    monkeypatch.delitem(opcode.opmap, "RESUME")
    try:
        assert importlib.reload(stack_sampler)._BEGIN == (-1, 0)
    finally:
        monkeypatch.undo()
        importlib.reload(stack_sampler)
