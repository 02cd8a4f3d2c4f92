"""Command with `--keep-warm`: hand it to the background process, which runs it in our place. Light.

The command line, current folder, environment and standard streams go there; signals are passed on. Whatever
keeps the background process from running the command, it is run here.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from codeflash_parallel.cli import warm_protocol as protocol
from codeflash_parallel.cli.exit_codes import BY_SIGNAL, SHOW_CURSOR, SignalInterrupt
from codeflash_parallel.cli.output import last_value
from codeflash_parallel.config.settings import SETTINGS, Executor
from codeflash_parallel.config.settings_reader import cache_root, read_settings
from codeflash_parallel.process.local_socket import peer_is_ours, short_address
from codeflash_parallel.result.errors import CodeflashParallelError, EnvironmentFault

#: The daemon's program; our folder comes last, as for the launcher.
_PROGRAM = (
    "import sys; sys.path.append(sys.argv.pop(1)); "
    "from codeflash_parallel.cli.warm_daemon import main; main(*sys.argv[1:])"
)
#: Descriptor on which the daemon says that it is ready.
READY_FD = 3
#: It waits for 10 s until one before it has ended.
_START_S = 15.0
#: Variables of the daemon between commands, besides those of an interpreter's start.
_KEPT_VARIABLES = ("PATH", "HOME")

_GONE = "The background process of --keep-warm ended while it ran the command"


def run_warm(arguments: Sequence[str]) -> int | None:
    """Have the background process run a command, if it is to; return its exit code, `None`: run it here.

    Raises:
        EnvironmentFault: `WARM_PROCESS_GONE`, after output that cannot be taken back.
        SignalInterrupt: the same, after a signal.
    """
    cache = _cache_of(arguments)
    if cache is None:
        return None
    try:
        cwd, folder = os.getcwd(), protocol.warm_folder(cache)  # noqa: PTH109 - text is sent
        connection = _reach(folder)
    except OSError:
        return None  # no such folder can be made or used: what is wrong with it is said by the command itself
    if connection is None:
        return None
    with connection:
        return _WarmCommand(connection).run(arguments, cwd)


def end_daemon(cache: Path) -> None:
    """End the background process of a cache if it is idle; nothing is lost by that."""
    folder = protocol.warm_folder(cache)
    with suppress(OSError):
        lock = protocol.read_lock(folder)
        if lock is not None and (connection := _asked(folder, lock, "end")) is not None:
            with connection:
                connection.settimeout(10 * protocol.PATIENCE_S)
                connection.recv(1)  # comes to its end when it has closed all


def _cache_of(arguments: Sequence[str]) -> Path | None:
    """Return the cache whose background process is to run a command; `None`: none is, or cannot be told."""
    ours = arguments[: arguments.index("--") if "--" in arguments else None]
    given: dict[str, Any] = {}
    for word in ours:
        if word in {"-h", "--help"}:
            return None
        if word in {"--keep-warm", "--no-keep-warm"}:
            given["keep_warm"] = word == "--keep-warm"
    for name in ("cache_dir", "executor", "ranking"):
        if value := last_value(ours, SETTINGS[name].flag):
            given[name] = value
    try:
        settings = read_settings(Path(last_value(ours, "--project") or "."), os.environ, given).settings
        # A ranking callable is loaded by the process of the command, which must not keep it.
        is_fit = settings.executor == Executor.LOCAL and ":" not in settings.ranking
        return cache_root(settings) if settings.keep_warm and is_fit else None
    except CodeflashParallelError:  # the command itself says what is wrong
        return None


# --- the background process ------------------------------------------------------------------------------


def _reach(folder: Path) -> socket.socket | None:
    """Return a connection to a daemon that waits for our command; one is started if there is none.

    Raises:
        OSError: the folder cannot be used.
    """
    stamp, lock = protocol.stamp(), protocol.read_lock(folder)
    if lock is not None and lock.stamp == stamp:
        with suppress(ConnectionRefusedError, FileNotFoundError):  # it was killed
            return _asked(folder, lock, "run")
    elif lock is not None:
        with suppress(ConnectionRefusedError, FileNotFoundError):
            if (ended := _asked(folder, lock, "end")) is None:
                return None
            ended.close()
    _start(folder)
    lock = protocol.read_lock(folder)
    return _asked(folder, lock, "run") if lock is not None and lock.stamp == stamp else None


def _asked(folder: Path, lock: protocol.LockContent, what: str) -> socket.socket | None:
    """Return a connection whose daemon has agreed to do something; `None`: it is busy, or no daemon of ours.

    Raises:
        OSError: there is none.
    """
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(protocol.PATIENCE_S)
        with short_address(folder / protocol.SOCKET_NAME) as address:
            connection.connect(address)
        if peer_is_ours(connection):
            protocol.send_line(connection, token=lock.token, do=what)
            with suppress(TimeoutError):
                answer = protocol.LineReader(connection).next()
                if answer == {"answer": "go"}:
                    connection.settimeout(None)
                    return connection
    except TimeoutError:
        pass
    except BaseException:
        connection.close()
        raise
    connection.close()
    return None


def _start(folder: Path) -> None:
    """Start a daemon, and wait until it is ready or has ended.

    Raises:
        OSError: the folder cannot be used.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid != os.geteuid():
        raise PermissionError(f"{folder} belongs to another user")
    folder.chmod(0o700)
    home = Path(__file__).absolute().parents[2]
    kept = (*protocol.START_VARIABLES, *_KEPT_VARIABLES)
    environment = {name: value for name, value in os.environ.items() if name.startswith(kept)}
    ready, theirs = os.pipe()
    nowhere = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
    argv = [sys.executable, "-P", "-c", _PROGRAM, str(home), str(folder.absolute())]
    try:
        streams = [(os.POSIX_SPAWN_DUP2, theirs, READY_FD), *nowhere]
        os.posix_spawn(sys.executable, argv, environment, file_actions=streams)
    finally:
        os.close(theirs)
    try:
        poll = select.poll()
        poll.register(ready)
        poll.poll(1000 * _START_S)
    finally:
        os.close(ready)


def _text_of(stream: TextIO | None) -> tuple[str, str]:
    """Return encoding and error handler of a stream; there is none where it was closed at our start."""
    return ("utf-8", "strict") if stream is None else (stream.encoding, stream.errors or "strict")


# --- one command -----------------------------------------------------------------------------------------


class _WarmCommand:
    """A command that a daemon runs."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._signals: list[str] = []

    def run(self, arguments: Sequence[str], cwd: str) -> int | None:
        """Have the command run and return its exit code; `None`: run it here."""
        command = {
            "arguments": list(arguments),
            "cwd": cwd,
            "environment": dict(os.environ),
            "streams": [_text_of(stream) for stream in (sys.stdin, sys.stdout, sys.stderr)],
        }
        with self._passing_signals():
            with suppress(ConnectionError):
                protocol.send_command(self._connection, command, (0, 1, 2))
            lines, used = protocol.LineReader(self._connection), False
            while (line := lines.next()) is not None:
                used = used or "used" in line
                if "exit" in line:
                    return int(line["exit"])
        return self._gone(used=used)

    def _gone(self, *, used: bool) -> int | None:
        """Say what to do after the end of a daemon that ran the command."""
        with suppress(OSError):
            if sys.stderr.isatty():
                sys.stderr.write(SHOW_CURSOR)
        if len(self._signals) > 1:  # the second one ends the process at once; it has said so
            return BY_SIGNAL[self._signals[-1]]
        if self._signals:
            raise SignalInterrupt(self._signals[0])
        if used:
            raise EnvironmentFault("WARM_PROCESS_GONE", f"{_GONE}.", "Run the command again.")
        with suppress(OSError):
            sys.stderr.write(f"{_GONE}: it is run again, here.\n")
            sys.stderr.flush()
        return None

    @contextmanager
    def _passing_signals(self) -> Iterator[None]:
        def pass_on(number: int, _frame: FrameType | None) -> None:
            self._signals.append(signal.Signals(number).name)
            with contextlib.suppress(OSError):
                protocol.send_line(self._connection, signal=self._signals[-1])

        before = {name: signal.signal(signal.Signals[name], pass_on) for name in BY_SIGNAL}
        try:
            yield
        finally:
            for name, handler in before.items():
                signal.signal(signal.Signals[name], handler)
