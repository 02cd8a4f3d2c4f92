"""Those who want the same done at once: the first of them does it for all.

The first one listens on a socket whose name it writes into a file. Who comes while it waits for its turn
sends it what is wanted, in one packet, and waits for the answer. Nothing depends on that: who finds nobody,
or whose leader dies, is stopped, refuses, or is somebody else's process, does its own work, and is the leader
of those who come then. A name that is left over may be another one's by now, perhaps one who leads somewhere
else: so each packet says by which terms, and a leader hears those by its own.
"""

from __future__ import annotations

import os
import select
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

#: Longest packet; half of what a socket of Linux takes at once by default.
_LONGEST = 96 * 1024
#: For so many a leader does what they want; more of them have one more leader.
_MANY = 64
#: Of the abstract name that the kernel gives a socket.
_LONGEST_NAME = 107
#: A pipe that somebody has put in the place of the file is not waited for.
_OPEN = os.O_CLOEXEC | os.O_NONBLOCK
#: Process, user and group at the other end.
_PEER = struct.Struct("3i")


def ask(path: Path, terms: bytes, message: Callable[[], bytes], longest_s: float) -> bytes | None:
    """Have something done by who leads, if anybody does, and return what it answers.

    Args:
        terms: what is led, and by which rules; who leads by others is not asked, and does not listen.
        message: makes what is wanted, where there is somebody to ask.

    Returns:
        `None`: it was not done. Empty: it was put down, and nobody knows; it is not begun any more.
    """
    try:
        name = _leader(path, terms)
        if not name:
            return None
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as mine:
            mine.setblocking(False)
            mine.connect(name)
            if not _is_ours(mine) or len(text := terms + message()) > _LONGEST:
                return None
            mine.send(text)
            return _answer(mine, longest_s)
    except OSError:
        return None


def _answer(mine: socket.socket, longest_s: float) -> bytes | None:
    waiter = select.poll()
    waiter.register(mine, select.POLLIN)
    waiter.poll(longest_s * 1000)
    try:
        return mine.recv(_LONGEST)
    except ConnectionResetError:  # it was not read
        return None
    except OSError:
        return b""
    finally:
        _end(mine)


def _end(end: socket.socket) -> None:
    """End a connection, or listening, for the other ends, too, where a fork of this process has a copy."""
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()


def _leader(path: Path, terms: bytes) -> bytes:
    handle = os.open(path, os.O_RDONLY | _OPEN)
    try:
        written = os.pread(handle, len(terms) + _LONGEST_NAME, 0)
    finally:
        os.close(handle)
    return written[len(terms) :].rstrip(b"\n") if written.startswith(terms) else b""


def _is_ours(connection: socket.socket) -> bool:
    """Say whether the other end is a process of our user: abstract names have no permissions."""
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    return bool(_PEER.unpack(peer)[1] == os.geteuid())


class Follower:
    """One that has put down what it wants, and waits."""

    def __init__(self, connection: socket.socket, message: bytes) -> None:
        self._connection = connection
        self.message = message

    def answer(self, text: bytes) -> None:
        """Say what was done; one that has gone looks for itself, as does one whose answer is too long."""
        if len(text) <= _LONGEST:
            with suppress(OSError):
                self._connection.send(text)

    def close(self) -> None:
        """Let go of it; without an answer it looks for itself."""
        _end(self._connection)


class Leader:
    """One that does for others what they put down; made by `leading`."""

    def __init__(self, listening: socket.socket, terms: bytes) -> None:
        self._listening = listening
        self._terms = terms
        self._followers: list[Follower] = []

    def gather(self) -> list[Follower]:
        """Return those who have put something down and still wait; later ones find nobody."""
        while len(self._followers) < _MANY:
            try:
                connection = self._listening.accept()[0]
            except OSError:
                break
            follower = _heard(connection, self._terms)
            if follower is None:
                connection.close()
            else:
                self._followers.append(follower)
        _end(self._listening)
        return self._followers

    def close(self) -> None:
        """Let go of all."""
        for follower in self._followers:
            follower.close()


def _heard(connection: socket.socket, terms: bytes) -> Follower | None:
    connection.setblocking(False)
    with suppress(OSError):
        if _is_ours(connection) and (message := connection.recv(_LONGEST)).startswith(terms):
            try:
                connection.recv(1)  # one that has left sends an end
            except BlockingIOError:
                return Follower(connection, message[len(terms) :])
    return None


@contextmanager
def leading(path: Path, terms: bytes) -> Iterator[Leader]:
    """Let those who come put down what they want, until they are gathered inside the block."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(b"")
        listening.listen(_MANY)
        listening.setblocking(False)
        _write(path, terms + listening.getsockname().ljust(_LONGEST_NAME, b"\n"))
        leader = Leader(listening, terms)
        try:
            yield leader
        finally:
            leader.close()


def _write(path: Path, text: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | _OPEN, 0o600)
    try:
        os.pwrite(handle, text, 0)
    finally:
        os.close(handle)
