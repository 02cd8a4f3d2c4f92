"""A daemon that does one thing with each client that calls."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from codeflash_parallel.queue.daemon_protocol import socket_of


@contextmanager
def fake(folder: Path, answer: Callable[[socket.socket], None]) -> Iterator[None]:
    """Be a daemon that does one thing with everybody who calls."""
    with socket.socket(socket.AF_UNIX) as listening:
        with socket_of(folder) as address:
            listening.bind(address)
        listening.listen()
        held: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    connection = listening.accept()[0]
                except OSError:
                    return
                held.append(connection)
                try:
                    answer(connection)
                except OSError:  # the client has gone
                    continue

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join(30)
            for connection in held:
                connection.close()
