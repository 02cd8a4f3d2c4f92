"""Background process of `--keep-warm`: runs commands in their clients' place, and keeps evaluators.

The main thread runs one command at a time, as a process of its own would: with its streams, folder,
environment and signals. Each connection has a thread, which passes on the client's signals, and interrupts
the command of a client that is gone. Evaluators live in a further thread, see `run.kept_evaluators`.
"""

from __future__ import annotations

import gc
import hmac
import io
import os
import queue
import secrets
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, NoReturn, TextIO

from codeflash_parallel.cli import warm_protocol as protocol
from codeflash_parallel.cli.evaluator_host import hosted_by
from codeflash_parallel.cli.exit_codes import BY_SIGNAL, SignalInterrupt
from codeflash_parallel.cli.main import dispatch, perform
from codeflash_parallel.cli.output import Output
from codeflash_parallel.cli.warm_client import READY_FD
from codeflash_parallel.process.files import FileLock, wait_for_lock
from codeflash_parallel.process.local_socket import peer_is_ours, short_address

#: Seconds without a command after which the process ends itself.
IDLE_S = 600.0
#: Seconds between two looks whether the lock file is still ours.
_LOOK_S = 20.0
#: Seconds that a daemon which was told to end has for it.
_HANDOVER_S = 10.0
#: Connections at a time; more are closed at once.
_MOST_CONNECTIONS = 16
#: A longer log is begun anew.
_LOG_BYTES = 1 << 20


class WarmJob(NamedTuple):
    """A command of a client.

    Attributes:
        connection: to the client.
        command: see `warm_protocol`.
        streams: descriptors of its standard input, output and error.
    """

    connection: socket.socket
    command: dict[str, Any]
    streams: list[int]


def main(name: str) -> NoReturn:
    """Serve the commands of a cache until there are none for a while.

    Args:
        name: path of `warm_folder`.
    """
    os.chdir("/")
    with suppress(OSError):
        os.setsid()
    for number in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
        if number > READY_FD:  # what the client's parent has left open
            with suppress(OSError):
                os.close(number)
    os.set_inheritable(READY_FD, False)
    folder = Path(name)
    stamp = protocol.stamp()
    lock = _lock(folder, stamp)
    if lock is not None:
        with lock:
            WarmDaemon(folder, stamp, lock).serve()
    os._exit(0)


def _lock(folder: Path, stamp: str) -> FileLock | None:
    """Take the lock of the only daemon; `None`: there is one like us, or one that does not end."""
    path = folder / protocol.LOCK_NAME
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    until = time.monotonic() + _HANDOVER_S
    while (lock := wait_for_lock(path, 0.1)) is None:
        other = protocol.read_lock(folder)
        if time.monotonic() > until or (other is not None and other.stamp == stamp):
            return None
    os.fchmod(lock.fd, 0o600)
    return lock


class WarmDaemon:
    """The daemon of a folder, whose lock it holds. Invariant: at most one command is agreed to at a time."""

    def __init__(self, folder: Path, stamp: str, lock: FileLock) -> None:
        self._folder, self._lock = folder, lock
        self._content = protocol.LockContent(str(os.getpid()), secrets.token_hex(16), stamp)
        self._jobs: queue.SimpleQueue[WarmJob | None] = queue.SimpleQueue()
        self._guard = threading.Lock()
        self._is_busy = False
        self._running: WarmJob | None = None
        self._early: tuple[WarmJob, str] | None = None  # a signal before the command has begun
        self._room = threading.BoundedSemaphore(_MOST_CONNECTIONS)

    def serve(self) -> None:
        """Run commands until there are none for a while, or a signal comes."""
        from codeflash_parallel.run.evaluator import Evaluator
        from codeflash_parallel.run.kept_evaluators import EvaluatorThread

        _handle_signals(self._end)
        with socket.socket(socket.AF_UNIX) as listener:
            thread = EvaluatorThread(Evaluator, self._note)
            self._listen(listener)
            self._note("starts")
            os.write(READY_FD, b"!")
            os.close(READY_FD)
            threading.Thread(target=self._accept, args=[listener], daemon=True).start()
            gc.freeze()
            try:
                while (job := self._next()) is not None:
                    with hosted_by(thread):
                        self._run(job)
                    thread.trim()
            finally:
                thread.close()
            self._note("ends")

    def _listen(self, listener: socket.socket) -> None:
        """Listen, then tell clients in the lock file."""
        path = self._folder / protocol.SOCKET_NAME
        path.unlink(missing_ok=True)
        with short_address(path) as address:
            listener.bind(address)
        path.chmod(0o600)
        listener.listen()
        data = "\n".join(self._content).encode()
        os.ftruncate(self._lock.fd, 0)
        os.pwrite(self._lock.fd, data, 0)

    def _next(self) -> WarmJob | None:
        """Return the next command; `None`: it is time to end."""
        until = time.monotonic() + IDLE_S
        while time.monotonic() < until and protocol.read_lock(self._folder) == self._content:
            with suppress(queue.Empty):
                return self._jobs.get(timeout=_LOOK_S)
        with self._guard:  # from now on none is agreed to
            if not self._is_busy:
                self._is_busy = True
                return None
        return self._jobs.get()

    def _end(self, _number: int, _frame: FrameType | None) -> None:
        self._jobs.put(None)

    def _note(self, line: str) -> None:
        path = self._folder / protocol.LOG_NAME
        with suppress(OSError):
            begins_anew = path.exists() and path.stat().st_size > _LOG_BYTES
            with path.open("w" if begins_anew else "a", encoding="utf-8", errors="backslashreplace") as log:
                log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {os.getpid()} {line}\n")

    # --- connections -----------------------------------------------------------------------------------

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):  # the end
            while True:
                connection, _address = listener.accept()
                if self._room.acquire(blocking=False):
                    threading.Thread(target=self._talk, args=[connection], daemon=True).start()
                else:
                    connection.close()

    def _talk(self, connection: socket.socket) -> None:
        try:
            with connection, suppress(OSError, ValueError):
                connection.settimeout(protocol.PATIENCE_S)
                lines = protocol.LineReader(connection)
                match lines.next() if peer_is_ours(connection) else None:
                    case {"token": str(token), "do": "run"} if self._is_known(token):
                        self._take(connection, lines)
                    case {"token": str(token), "do": "end"} if self._is_known(token) and self._agree(
                        connection
                    ):
                        self._jobs.put(None)
                        connection.settimeout(None)
                        connection.recv(1)  # the client leaves, or this process has ended
        finally:
            self._room.release()

    def _is_known(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(), self._content.token.encode())

    def _agree(self, connection: socket.socket) -> bool:
        """Agree to do something, unless something is being done."""
        with self._guard:
            is_free, self._is_busy = not self._is_busy, True
        try:
            protocol.send_line(connection, answer="go" if is_free else "busy")
        except OSError:
            self._is_busy = not is_free
            raise
        return is_free

    def _take(self, connection: socket.socket, lines: protocol.LineReader) -> None:
        """Take a client's command, and pass on its signals until it is run."""
        if not self._agree(connection):
            return
        try:
            job = WarmJob(connection, *protocol.receive_command(connection))
        except BaseException:
            self._is_busy = False
            raise
        connection.settimeout(None)
        self._jobs.put(job)
        while (line := lines.next()) is not None:
            self._interrupt(job, str(line.get("signal")))
        self._interrupt(job, "SIGTERM")  # nobody waits for it any more

    def _interrupt(self, job: WarmJob, name: str) -> None:
        with self._guard:
            if name not in BY_SIGNAL:
                return
            if self._running is job:
                # Not to the process: what the main thread waits in has to notice it.
                signal.pthread_kill(threading.main_thread().ident or 0, signal.Signals[name])
            elif self._is_busy and (self._early is None or self._early[0] is job):
                self._early = (job, name)

    # --- one command -----------------------------------------------------------------------------------

    def _run(self, job: WarmJob) -> None:
        """Run a command as its client would, and tell its exit code."""
        code: int | None = None  # then its client runs it
        _handle_signals(_raise_interrupt)
        try:
            with _in_place_of(job):
                code = perform(job.command["arguments"], partial(self._dispatch, job))
                _handle_signals(signal.SIG_IGN)
        except Exception as error:  # noqa: BLE001 - one command must not end the process
            self._note(f"a command failed: {error!r}")
        finally:
            _handle_signals(signal.SIG_IGN)
            with self._guard:
                self._running, self._is_busy = None, False
            _handle_signals(self._end)
            for descriptor in job.streams:
                os.close(descriptor)
            with suppress(OSError):
                if code is not None:
                    protocol.send_line(job.connection, exit=code)
                job.connection.shutdown(socket.SHUT_RDWR)

    def _dispatch(self, job: WarmJob, arguments: Sequence[str], output: Output) -> int:
        with self._guard:
            self._running = job
            early, self._early = self._early, None
        if early is not None and early[0] is job:
            raise SignalInterrupt(early[1])
        return dispatch(arguments, output)


def _handle_signals(handler: Any) -> None:
    for name in BY_SIGNAL:
        signal.signal(signal.Signals[name], handler)


def _raise_interrupt(number: int, _frame: FrameType | None) -> NoReturn:
    raise SignalInterrupt(signal.Signals(number).name)


# --- the client's place ----------------------------------------------------------------------------------


class _NotingFile(io.FileIO):
    """A standard stream that tells when it is used.

    Args:
        number: its descriptor, which stays open.
        mode: as of `FileIO`.
        note: called before each use.
    """

    def __init__(self, number: int, mode: str, note: Callable[[], None]) -> None:
        super().__init__(number, mode, closefd=False)
        self._note = note

    def write(self, data: Any, /) -> Any:
        """Write to it."""
        self._note()
        return super().write(data)

    def readinto(self, buffer: Any, /) -> Any:
        """Read from it."""
        self._note()
        return super().readinto(buffer)

    def readall(self) -> Any:
        """Read all of it."""
        self._note()
        return super().readall()


@contextmanager
def _in_place_of(job: WarmJob) -> Iterator[None]:
    """Have folder, environment and standard streams of a client while the block lasts."""
    environment = dict(os.environ)
    try:
        _set_environment(job.command["environment"])
        os.chdir(job.command["cwd"])
        with _streams(job):
            yield
    finally:
        os.chdir("/")
        _set_environment(environment)


def _set_environment(environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None  # found out again, by these variables
    time.tzset()


@contextmanager
def _streams(job: WarmJob) -> Iterator[None]:
    """Put a client's streams into the places of ours, which lead nowhere."""

    def note() -> None:
        with suppress(OSError):
            protocol.send_line(job.connection, used=True)

    names, ours = ("stdin", "stdout", "stderr"), (sys.stdin, sys.stdout, sys.stderr)
    for number, descriptor in enumerate(job.streams):
        os.dup2(descriptor, number)
    texts = dict(zip(names, job.command["streams"], strict=True))
    theirs = [_text_stream(number, name, note, *texts[name]) for number, name in enumerate(names)]
    sys.stdin, sys.stdout, sys.stderr = theirs
    try:
        yield
    finally:
        sys.stdin, sys.stdout, sys.stderr = ours
        nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for stream in theirs:
            with suppress(OSError, ValueError):
                stream.flush()
        for number in range(3):
            os.dup2(nowhere, number)
        os.close(nowhere)


def _text_stream(number: int, name: str, note: Callable[[], None], encoding: str, errors: str) -> TextIO:
    """Return a stream as the interpreter makes it at its start."""
    if name == "stdin":
        return io.TextIOWrapper(io.BufferedReader(_NotingFile(number, "r", note)), encoding, errors)
    is_error = name == "stderr"
    raw = _NotingFile(number, "w", (lambda: None) if is_error else note)
    by_line = is_error or os.isatty(number)
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding, errors, line_buffering=by_line)
