"""Child processes of command providers: one a request, in a session of its own, killed at its deadline."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

#: More than this on stdout is no answer.
_MAX_ANSWER_BYTES = 32 * 1024 * 1024
#: How much of stderr is worth showing.
_TAIL_BYTES = 4096
#: Runs a command so that it dies with the thread that asked: `exec` keeps a death signal.
_STARTER = Path(__file__).with_name("command_starter.py")


class CommandFailure(RuntimeError):  # noqa: N818 - the provider's failure, told in its request's outcome
    """A command gave no answer; the message says why."""


class ProviderProcesses:
    """The children of one broker. Threads ask; whoever closes it kills them all, and no more are started."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._closed = False

    def ask(self, argv: Sequence[str], question: bytes, *, deadline_s: float, cwd: str | None = None) -> str:
        """Run a command with a question on stdin, and return what it printed. Blocks the calling thread.

        Raises:
            ProviderFailed: it could not be started, was still running at the deadline, or exited non-zero.
        """
        # files, not pipes: neither a full pipe nor a grandchild that keeps one open can block us
        with TemporaryFile() as stdin, TemporaryFile() as stdout, TemporaryFile() as stderr:
            stdin.write(question)
            stdin.seek(0)
            child = self._start(argv, (stdin, stdout, stderr), cwd)
            try:
                in_time = _wait(child, deadline_s)
            finally:
                self._end(child)
            if not in_time:
                raise CommandFailure(f"no answer within {deadline_s:g} s; it was killed")
            if child.returncode:
                raise CommandFailure(f"exit status {child.returncode}: {_last_line(stderr)}")
            return _read(stdout)

    def close(self) -> None:
        """Kill what runs. Threads that wait for it return at once."""
        with self._lock:
            self._closed = True
            for child in self._running:
                _kill(child)

    def _start(
        self, argv: Sequence[str], streams: tuple[IO[bytes], IO[bytes], IO[bytes]], cwd: str | None
    ) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-I", "-S", str(_STARTER), str(os.getpid()), *argv]
        stdin, stdout, stderr = streams
        with self._lock:
            if self._closed:
                raise CommandFailure("the run is over")
            child = subprocess.Popen(
                command, stdin=stdin, stdout=stdout, stderr=stderr, cwd=cwd, start_new_session=True
            )
            self._running.add(child)
        return child

    def _end(self, child: subprocess.Popen[bytes]) -> None:
        """Kill the session's survivors, and only then reap, so that the group's id cannot be another's."""
        with self._lock:
            _kill(child)
            self._running.discard(child)
        child.wait()


def _wait(child: subprocess.Popen[bytes], deadline_s: float) -> bool:
    """Wait for an exit without reaping; tell whether it came in time."""
    descriptor = os.pidfd_open(child.pid)
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(deadline_s * 1000))
    finally:
        os.close(descriptor)


def _kill(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)


def _read(stdout: IO[bytes]) -> str:
    if stdout.seek(0, os.SEEK_END) > _MAX_ANSWER_BYTES:
        raise CommandFailure(f"more than {_MAX_ANSWER_BYTES} bytes of answer")
    stdout.seek(0)
    try:
        return stdout.read().decode()
    except UnicodeDecodeError as error:
        raise CommandFailure("the answer is not UTF-8") from error


def _last_line(stderr: IO[bytes]) -> str:
    stderr.seek(max(0, stderr.seek(0, os.SEEK_END) - _TAIL_BYTES))
    lines = stderr.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing on stderr"
