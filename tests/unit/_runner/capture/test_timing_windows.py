"""What a runner announces of calls inside tests, over a real socket."""

from __future__ import annotations

import socket
import sys
import threading
import types
from collections.abc import Iterator

import pytest

from codeflash_parallel._runner import channels
from codeflash_parallel._runner.capture import call_recorder, function_wrappers, timing_windows

CODE = """
def depth(number):
    return (depth.__name__ if hasattr(depth, "__wrapped__") else "bare") if number == 0 else depth(number - 1)

def steps(number):
    yield from range(number)
"""


class Announced:
    """A module with targets, and what was announced of their calls, without quotes."""

    def __init__(self) -> None:
        self.kinds: list[str] = []
        ours, theirs = socket.socketpair()
        self._socket = ours
        spec = {"root": "/project", "targets": [{"path": "m.py", "qualname": n} for n in ("depth", "steps")]}
        self.announcer = timing_windows.CallAnnouncer(spec, None)
        self.module = types.ModuleType("codeflash_windows_m")
        self.module.__file__ = "/project/m.py"
        exec(CODE, vars(self.module))
        for number, name in enumerate(("depth", "steps")):
            origin = call_recorder.CallOrigin(self.announcer, number, self.module.__name__, "outer")
            wrapped = function_wrappers.wrap(self.announcer, origin, getattr(self.module, name))
            setattr(self.module, name, wrapped)
        sys.modules[self.module.__name__] = self.module
        self.announcer.bind(channels.ArmControl(theirs.detach()))
        self._thread = threading.Thread(target=self._answer)
        self._thread.start()

    def _answer(self) -> None:
        while line := self._socket.recv(100):
            self.kinds.append(line.decode().strip().removeprefix('{"t": "').removesuffix('"}'))
            self._socket.send(b"\n")

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()
        del sys.modules[self.module.__name__]


@pytest.fixture
def announced() -> Iterator[Announced]:
    found = Announced()
    yield found
    found.close()


def test_outermost_calls_are_announced_and_run_without_wrappers_inside(announced: Announced) -> None:
    announced.announcer.open()
    assert announced.module.depth(3) == "bare"
    assert announced.kinds == ["near", "in", "out"]
    assert hasattr(announced.module.depth, "__wrapped__")


def test_a_generator_is_announced_step_by_step(announced: Announced) -> None:
    announced.announcer.open()
    found = announced.module.steps(2)
    assert announced.kinds == []
    assert list(found) == [0, 1]
    assert announced.kinds == ["near", "in", "out"] * 3


def test_one_of_so_many_calls_is_announced_and_none_when_it_is_closed(announced: Announced) -> None:
    announced.announcer.every = 2
    announced.announcer.open()
    for _ in range(5):
        announced.module.depth(0)
    assert announced.kinds == ["near", "in", "out"] * 2
    announced.announcer.close()
    announced.module.depth(0)
    announced.module.depth(0)
    assert len(announced.kinds) == 6


def test_empty_windows_tell_what_an_announcement_costs(announced: Announced) -> None:
    announced.announcer.open()
    announced.announcer.try_out()
    assert announced.kinds == ["near", "in", "out"] * timing_windows.EMPTY


def test_results_are_kept_by_lot_for_a_comparison(announced: Announced) -> None:
    announced.announcer.open()
    for _ in range(timing_windows.KEPT + 20):
        announced.module.depth(0)
    assert announced.announcer.kept == ["bare"] * timing_windows.KEPT
    announced.announcer.open()
    assert announced.announcer.kept == []
