"""Providers that are commands: a request as JSON on stdin, answers as JSON on stdout, a process a request."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from codeflash_parallel.repair.provider_protocol import Answer, Question, read_answers, request_document
from codeflash_parallel.result.errors import UsageError

#: More than this on stdout is no answer.
_MAX_ANSWER_BYTES = 32 * 1024 * 1024
#: How much of stderr is worth showing.
_TAIL_BYTES = 4096
#: Becomes a command that dies with the thread that asked: `exec` keeps a death signal (option 1 of prctl sets
#: it). It ends with 127, as in shells, where that thread has died before.
_STARTER = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
parent, *argv = sys.argv[1:]
if os.getppid() != int(parent):
    os._exit(127)
try:
    os.execvp(argv[0], argv)
except OSError as error:
    sys.exit(f"{argv[0]}: {error.strerror}")
"""


class CommandFailure(RuntimeError):  # noqa: N818 - the provider's failure, told in its request's outcome
    """A command gave no answer; the message says why."""


class ProviderProcesses:
    """The children of one broker. Closing it kills them all, and no more are started."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._closed = False

    def ask(self, argv: Sequence[str], question: bytes, *, deadline_s: float, cwd: str | None = None) -> str:
        """Run a command with a question on stdin, and return what it printed. Blocks the calling thread.

        Raises:
            CommandFailure: it could not be started, was still running at the deadline, or exited non-zero.
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
        command = [sys.executable, "-I", "-S", "-c", _STARTER, str(os.getpid()), *argv]
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


#: ``module:name`` or ``path.py:name``.
_CALLABLE = re.compile(r"(?:[^\s:]+\.py|[A-Za-z_][\w.]*):[A-Za-z_]\w*")
#: Starts our worker by code, not by ``-m``: the provider's folder need not know where we are installed.
_WORKER = (
    "import sys; sys.path.append(sys.argv.pop(1)); "
    "from codeflash_parallel.repair.provider_protocol import main; sys.exit(main(sys.argv[1:]))"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class CommandProvider:
    """A command and how long it may take.

    Attributes:
        argv: program and arguments; no shell is involved.
        deadline_s: wall seconds of one request; then its whole session is killed.
        cwd: where it runs; empty: the current folder.
    """

    argv: tuple[str, ...]
    deadline_s: float
    cwd: str = ""

    def answer(self, children: ProviderProcesses, question: Question) -> tuple[Answer, ...]:
        """Run the command once, among the children of a broker. Blocks.

        Raises:
            CommandFailure: it gave no answer.
            MalformedAnswer: it answered something else than the schema says.
        """
        data = json.dumps(request_document(question)).encode()
        text = children.ask(self.argv, data, deadline_s=self.deadline_s, cwd=self.cwd or None)
        return read_answers(text)

    def __call__(self, question: Question, /) -> tuple[Answer, ...]:
        """Answer. Blocks; raises as `answer`."""
        return self.answer(ProviderProcesses(), question)


def command_provider(text: str, kind: str, *, deadline_s: float, cwd: str = "") -> CommandProvider:
    """Return the provider that ``--repair-command`` or ``--refine-command`` names.

    Args:
        text: a command line (split as a shell would, run without one), or a Python callable as
            ``module:name`` or ``path.py:name``, which is called in a process of its own.
        kind: ``repair`` or ``refine``.
        deadline_s: wall seconds of one request.
        cwd: where it runs and where paths start; empty: the current folder.

    Raises:
        UsageError: `BAD_COMMAND` when it cannot be run.
    """
    return CommandProvider(argv=_argv(text, kind, cwd), deadline_s=deadline_s, cwd=cwd)


def _must_be_there(text: str, kind: str, cwd: str) -> None:
    """Refuse a callable whose file or package is not there; nothing of it is run."""
    where = text.rpartition(":")[0]
    folder = Path(cwd).resolve()
    there = (folder / where).is_file() if where.endswith(".py") else _is_module(where, folder)
    if not there:
        raise UsageError(
            "BAD_COMMAND", f"The {kind} callable {text!r} cannot be loaded: there is no {where} in {folder}."
        )


def _is_module(name: str, folder: Path) -> bool:
    """Tell whether there is the outermost package of a module: to look further would run it."""
    top = name.partition(".")[0]
    found = top in sys.modules or PathFinder.find_spec(top, [str(folder)]) or find_spec(top)
    return bool(found)


def _argv(text: str, kind: str, cwd: str) -> tuple[str, ...]:
    if _CALLABLE.fullmatch(text):
        _must_be_there(text, kind, cwd)
        root = str(Path(__file__).resolve().parents[2])
        return (sys.executable, "-c", _WORKER, root, text)
    try:
        argv = shlex.split(text)
    except ValueError as error:
        raise UsageError(
            "BAD_COMMAND", f"The {kind} command {text!r} is not a command line: {error}."
        ) from error
    program = argv[0] if argv else ""
    if not (shutil.which(program) or shutil.which(Path(cwd, program))):
        raise UsageError(
            "BAD_COMMAND",
            f"The {kind} command {text!r} cannot be run: there is no program {program!r}.",
            "Give a program with its arguments, or a Python callable as module:name or path.py:name.",
        )
    return tuple(argv)
