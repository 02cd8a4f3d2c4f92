"""Sockets below long paths, and who is at the other end."""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path

import pytest

from codeflash_parallel.process.local_socket import peer_is_ours, short_address


def test_a_socket_below_a_long_path_can_be_used(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 40)
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        with short_address(folder / "s") as address:
            listener.bind(address)
            listener.listen()
            client.connect(address)
        assert (folder / "s").is_socket()
        assert peer_is_ours(client)
    with pytest.raises(FileNotFoundError), short_address(tmp_path / "absent" / "s"):
        pass


@pytest.mark.parametrize(("user", "is_ours"), [(os.geteuid(), True), (0, True), (4711, False)])
def test_the_user_at_the_other_end(user: int, is_ours: bool) -> None:
    class Peer:
        def getsockopt(self, *_: int) -> bytes:
            return struct.pack("iII", 1, user, 0)

    assert peer_is_ours(Peer()) is is_ours  # type: ignore[arg-type]
