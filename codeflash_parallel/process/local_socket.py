"""Unix sockets in folders of ours: names that are short enough, and the user at the other end. Light."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: pid, user, group
_CREDENTIALS = struct.Struct("iII")


@contextmanager
def short_address(path: Path) -> Iterator[str]:
    """Give a short name of a socket: the kernel takes 107 bytes at most.

    Raises:
        FileNotFoundError: the socket's folder does not exist.
    """
    handle = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{handle}/{path.name}"
    finally:
        os.close(handle)


def peer_is_ours(peer: socket.socket) -> bool:
    """Return whether the other end is our own user or root, whatever the file's permissions are by now."""
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return _CREDENTIALS.unpack(credentials)[1] in {os.geteuid(), 0}
