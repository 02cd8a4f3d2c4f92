"""The lock file, the stamp and the messages of `--keep-warm`."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from codeflash_parallel.cli import warm_protocol
from codeflash_parallel.cli.warm_protocol import (
    LOCK_NAME,
    MAX_LINE,
    LineReader,
    LockContent,
    read_lock,
    receive_command,
    send_command,
    send_line,
    stamp,
)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.settimeout(5)
        yield ours, theirs


def _open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_the_lock_file(tmp_path: Path) -> None:
    assert read_lock(tmp_path) is None
    for content, found in (
        ("", None),
        ("1\n2", None),
        ("1\ntoken\nstamp", LockContent("1", "token", "stamp")),
    ):
        (tmp_path / LOCK_NAME).write_text(content)
        assert read_lock(tmp_path) == found
    (tmp_path / LOCK_NAME).write_bytes(b"\xff")
    assert read_lock(tmp_path) is None


def test_a_start_of_another_kind_has_another_stamp(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = stamp()
    assert "\n" not in before
    monkeypatch.setenv("SOMETHING", "else")
    assert stamp() == before
    monkeypatch.setenv("PYTHONUTF8", "1")
    assert stamp() != before
    monkeypatch.delenv("PYTHONUTF8")
    umask = os.umask(0o027)
    try:
        assert stamp() != before
    finally:
        os.umask(umask)
    assert stamp() == before
    package = tmp_path / "package"
    (package / "room" / "__pycache__").mkdir(parents=True)
    for name in ("__init__.py", "room/a.py"):
        (package / name).touch()
    monkeypatch.setattr(warm_protocol.codeflash_parallel, "__file__", str(package / "__init__.py"))
    of_package = stamp()
    assert of_package != before
    (package / "room" / "__pycache__" / "a.py").touch()
    assert stamp() == of_package
    os.utime(package / "room" / "a.py", (2e9, 2e9))
    assert stamp() != of_package


def test_lines_arrive_one_by_one(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    for number in range(3):
        send_line(ours, exit=number)
    ours.shutdown(socket.SHUT_WR)
    lines = LineReader(theirs)
    assert [lines.next() for _ in range(4)] == [{"exit": 0}, {"exit": 1}, {"exit": 2}, None]


@pytest.mark.parametrize(
    "data", [b"1\n", b"{\n", b"\xff\n", b"[" * 3000 + b"\n", b"x" * (MAX_LINE + 1), b"{}"]
)
def test_nonsense_is_the_end(data: bytes, pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    ours.sendall(data)
    ours.shutdown(socket.SHUT_WR)
    assert LineReader(theirs).next() is None


def test_silence_is_told(pair: tuple[socket.socket, socket.socket]) -> None:
    pair[1].settimeout(0.01)
    with pytest.raises(TimeoutError):
        LineReader(pair[1]).next()


def test_a_command_brings_its_streams(pair: tuple[socket.socket, socket.socket], tmp_path: Path) -> None:
    ours, theirs = pair
    command = {"arguments": ["check"], "environment": {"NAME": "\udcff" + "x" * 500_000}}
    files = [os.open(tmp_path / str(number), os.O_RDWR | os.O_CREAT) for number in range(3)]
    sender = threading.Thread(target=send_command, args=(ours, command, files))
    sender.start()
    received, streams = receive_command(theirs)
    sender.join()
    assert received == command
    assert [os.path.sameopenfile(a, b) for a, b in zip(files, streams, strict=True)] == [True] * 3
    assert not any(map(os.get_inheritable, streams))
    for number in (*files, *streams):
        os.close(number)


@pytest.mark.parametrize(
    ("head", "data", "count"), [(0, b"", 0), (5, b"{}", 3), (2, b"[x", 3), (2, b"{}", 2), (1 << 60, b"{}", 3)]
)
def test_half_a_command_is_none(
    head: int, data: bytes, count: int, pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = pair
    open_before = _open_files()
    socket.send_fds(ours, [head.to_bytes(8, "big")], [0, 1, 2][:count])
    ours.sendall(data)
    ours.shutdown(socket.SHUT_WR)
    with pytest.raises(ValueError):
        receive_command(theirs)
    assert _open_files() == open_before
