"""The launcher's loop in a process of its own, spoken to in its frames."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import codeflash_parallel
from codeflash_parallel.process.message_frames import FrameDecoder, Message, pack

_PROGRAM = (
    "import sys; sys.path.append(sys.argv.pop(1)); "
    "from codeflash_parallel.process.supervisor.supervisor_loop import main; main()"
)
_HOME = str(Path(codeflash_parallel.__file__).parents[1])


class Line:
    """Our end of the socket, and the messages that have come."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        end.settimeout(20)
        self._frames, self._came = FrameDecoder(), list[Message]()

    def next(self) -> Message:
        while not self._came:
            data = self.end.recv(65536)
            assert data, "the launcher is gone"
            self._came += self._frames.feed(data)
        return self._came.pop(0)

    def start(self, number: int, *argv: str) -> None:
        order = {
            "op": "start", "job": number, "marker": f"loop-{number}", "tag": 0, "cpu_s": 0, "wall_s": 60,
            "memory_bytes": 0, "argv": argv, "cwd": "/", "environment": {}, "descriptors": ["stdout"],
        }  # fmt: skip
        null = os.open("/dev/null", os.O_WRONLY)
        socket.send_fds(self.end, [pack(order)], [null])
        os.close(null)


@pytest.fixture
def line() -> Iterator[Line]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        argv = (sys.executable, "-I", "-S", "-c", _PROGRAM, _HOME, str(theirs.fileno()), str(os.getpid()))
        launcher = subprocess.Popen(argv, pass_fds=[theirs.fileno()])
        theirs.close()
        made = Line(ours)
        ready = made.next()
        assert (ready["t"], ready["pid"]) == ("ready", launcher.pid)
        yield made
        ours.close()
        assert launcher.wait(20) == 0  # it ends with its evaluator


def test_a_child_is_started_and_its_end_is_reported(line: Line) -> None:
    line.start(1, "/bin/sh", "-c", "exit 3")
    started, ended = line.next(), line.next()
    assert (started["t"], started["job"]) == ("started", 1)
    assert (ended["t"], ended["job"], ended["ended"], ended["status"]) == ("ended", 1, "exited", 3)


def test_a_program_that_is_not_there_is_not_started(line: Line) -> None:
    line.start(2, "/nowhere/at/all")
    messages = [line.next(), line.next()]
    assert messages[-1]["ended"] == "not_started"
    assert "/nowhere/at/all" in messages[-1]["message"]


def test_a_child_is_killed_on_demand(line: Line) -> None:
    line.start(3, "/bin/sleep", "60")
    assert line.next()["t"] == "started"
    line.end.sendall(pack({"op": "kill", "job": 3, "why": "enough"}))
    ended = line.next()
    assert (ended["ended"], ended["message"]) == ("killed", "enough")


def test_the_evaluator_s_end_kills_what_runs(line: Line) -> None:
    line.start(4, "/bin/sleep", "60")
    pid = line.next()["pid"]
    line.end.shutdown(socket.SHUT_RDWR)
    while Path(f"/proc/{pid}").exists():
        pass
