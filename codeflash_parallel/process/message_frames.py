"""Frames of messages between our processes: four bytes of length, then one JSON object.

The standard library only: the launcher, which runs without site-packages, imports this too.
"""

from __future__ import annotations

import json
import os
import struct
from typing import Any

#: Name of the environment variable that every child and, unless it hides, every descendant carries.
MARKER = "CODEFLASH_PARALLEL_JOB"
#: The child's descriptors; stdin is the null device.
RECORDS_FD = 3
CONTROL_FD = 4
#: What a fork of a template waits for before its first step.
GO = b"g"

_LENGTH = struct.Struct("!I")
#: How many tags a generation of jobs has; two jobs with one tag never run at the same time.
_TAGS = 4096

Message = dict[str, Any]


def pack(message: Message) -> bytes:
    """Return the frame of one message."""
    body = json.dumps(message, separators=(",", ":")).encode("ascii")
    return _LENGTH.pack(len(body)) + body


def marker_of(prefix: str, number: int) -> str:
    """Return a job's marker. All have one length: a forked process writes its own over the one it got."""
    return f"{prefix}{number:08d}"


def tag_of(top: int, number: int, generation: int) -> int:
    """Return the message queue limit that marks a job, 0 where there is no room for one.

    Args:
        top: what the launcher said in ``ready``; 0: no room.
        number: the job's.
        generation: how many forks of templates lie between it and the launcher. Each has a band of tags
            below the one before: an ordinary user's process can lower its limit, never raise it.
    """
    return max(top - 1 - generation * _TAGS - number % _TAGS, 0)


def portable(text: str) -> str:
    """Return text whose UTF-8 bytes are those of `text` in our own file system encoding.

    The launcher always runs in UTF-8 mode; this process may not.
    """
    return os.fsencode(text).decode("utf-8", "surrogateescape")


class FrameDecoder:
    """Cut a stream of bytes into messages."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> list[Message]:
        """Take what was received and return the messages that it completes."""
        self._pending += data
        messages = []
        while (message := self._next()) is not None:
            messages.append(message)
        return messages

    def _next(self) -> Message | None:
        if len(self._pending) < _LENGTH.size:
            return None
        end = _LENGTH.size + _LENGTH.unpack_from(self._pending)[0]
        if len(self._pending) < end:
            return None
        body = bytes(self._pending[_LENGTH.size : end])
        del self._pending[:end]
        message: Message = json.loads(body)
        return message
