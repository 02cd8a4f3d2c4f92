"""Programs that make trees of processes which do not want to be killed, and a door that knows who is left.

Every process of a tree holds the writing end of a named pipe. The kernel tells the reader when the last one
is gone: no process table is walked, nothing can hide from it, and nothing of the code under test is used.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

#: How many processes a shape has before it says that it is there; the chain is one at any moment.
WIDTH = 8

_HEAD = """
import ctypes, os, signal, sys, time
door = os.open(sys.argv[1], os.O_WRONLY)
os.set_inheritable(door, True)
lasts, hopper = sys.argv[2] == "lasts", sys.argv[3]

def here():
    os.write(door, b"x")

def deaf():
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        try:
            signal.signal(number, signal.SIG_IGN)
        except OSError:
            pass

def wait_for_ever():
    here()
    while True:
        signal.pause()

def plain():
    if os.fork() == 0:
        wait_for_ever()

def session():
    if os.fork() == 0:
        os.setsid()
        wait_for_ever()

def daemon():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            deaf()
            for number in (0, 1, 2):
                os.close(number)
            again = "import os, signal\\nos.write(%d, b'x')\\nwhile True: signal.pause()" % door
            os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", again], {})
        os._exit(0)
    os.wait()

def chain():
    if os.fork() == 0:
        os.setsid()
        if hopper:
            os.execve(hopper, [hopper, str(door)], {})
        deaf()
        here()
        fork, leave = ctypes.PyDLL(None).fork, ctypes.PyDLL(None)._exit
        while True:
            if fork():
                leave(0)
"""
_TAIL = """
while lasts or not os.path.exists(sys.argv[1] + ".ended"):
    time.sleep(0.002)
"""

#: The chain in C, where there is a compiler: a hop is five times as short.
_HOPPER = """
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
int main(int count, char **words) {
    for (int number = 1; number < 65; number++) signal(number, SIG_IGN);
    if (write(atoi(words[1]), "x", 1) != 1) return 1;
    for (;;) if (fork() > 0) _exit(0);
}
"""

#: What makes each shape, and how many processes then say that they are there.
SHAPES = {
    "plain": ("plain()\n" * WIDTH, WIDTH),
    "setsid": ("session()\n" * WIDTH, WIDTH),
    "daemons": ("daemon()\n" * WIDTH, WIDTH),
    "chain": ("chain()\n", 1),
    "mixed": ("plain()\nsession()\ndaemon()\nchain()\n" * 2, 8),
}


def program(shape: str) -> str:
    """Return the Python text of a shape; its arguments: the door, ``lasts`` or ``ends``, and the hopper."""
    return _HEAD + SHAPES[shape][0] + _TAIL


def hopper(folder: Path) -> str:
    """Put the compiled chain into a folder; empty where there is no compiler: Python hops then."""
    text = _compiled()
    if not text:
        return ""
    made = folder / "hopper"
    made.write_bytes(text)
    made.chmod(0o755)
    return str(made)


@cache
def _compiled() -> bytes:
    compiler = shutil.which("cc")
    if compiler is None:
        return b""
    with tempfile.TemporaryDirectory(prefix="hopper-") as folder:
        source, made = Path(folder, "hopper.c"), Path(folder, "hopper")
        source.write_text(_HOPPER, encoding="utf-8")
        done = subprocess.run([compiler, "-O2", "-static", str(source), "-o", str(made)], check=False)
        return made.read_bytes() if done.returncode == 0 else b""


class Door:
    """The reader's end of a named pipe that every process of a tree holds open."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "door"
        os.mkfifo(self.path)
        self.path.chmod(0o666)
        self._end = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        self._came = False
        self.identity = self.path.stat().st_dev, self.path.stat().st_ino

    def said(self) -> int:
        """Return how many processes have said, since the last call, that they are there."""
        with suppress(BlockingIOError):
            heard = len(os.read(self._end, 4096))
            self._came = self._came or heard > 0
            return heard
        return 0

    def gone(self, within_s: float) -> bool:
        """Return whether the last holder goes within some seconds; at once if it has gone."""
        end = time.monotonic() + within_s
        poll = select.poll()
        poll.register(self._end, select.POLLIN)
        while True:
            left_ms = max(0.0, end - time.monotonic()) * 1000
            events = dict(poll.poll(left_ms)).get(self._end, 0)
            if events & select.POLLHUP:
                return True
            if events & select.POLLIN:
                os.read(self._end, 4096)
            elif not left_ms:
                return False

    def end(self) -> None:
        """Let a tree's main process end, where it waits for that."""
        self.path.with_name(self.path.name + ".ended").touch()

    def holders(self) -> list[int]:
        """Return the processes that hold the pipe open, this one apart."""
        return [pid for pid in _pids() if pid != os.getpid() and self._holds(pid)]

    def _holds(self, pid: int) -> bool:
        with suppress(OSError):
            for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):
                    status = descriptor.stat()
                    if (status.st_dev, status.st_ino) == self.identity:
                        return True
        return False

    def clear(self) -> None:
        """Kill whoever is left, however often it hops."""
        while self._came and not self.gone(0.0):
            for pid in self.holders():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        """Close the reader's end."""
        os.close(self._end)


def _pids() -> Iterator[int]:
    return (int(place.name) for place in Path("/proc").iterdir() if place.name.isdecimal())


@contextmanager
def open_door() -> Iterator[Door]:
    """Make a door in a folder of its own; whoever still holds it at the end is killed."""
    with tempfile.TemporaryDirectory(prefix="door-") as folder:
        door = Door(Path(folder))
        try:
            yield door
        finally:
            door.clear()
            door.close()
