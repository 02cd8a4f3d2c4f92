"""The background process of `--keep-warm`: its lock, its streams, and the place of a client."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from pathlib import Path

import pytest

from codeflash_parallel.cli import warm_daemon
from codeflash_parallel.cli.warm_daemon import WarmDaemon, WarmJob
from codeflash_parallel.cli.warm_protocol import LineReader, LockContent, read_lock
from codeflash_parallel.process.files import FileLock, wait_for_lock


@pytest.fixture
def lock(tmp_path: Path) -> FileLock:
    found = warm_daemon._lock(tmp_path, "stamp")
    assert found is not None
    return found


def test_the_token_is_for_its_user_only(tmp_path: Path, lock: FileLock) -> None:
    with lock, socket.socket(socket.AF_UNIX) as listener:
        WarmDaemon(tmp_path, "stamp", lock)._listen(listener)
        content = read_lock(tmp_path)
        assert content is not None
        assert (content.pid, content.stamp, len(content.token)) == (str(os.getpid()), "stamp", 32)
        modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("daemon.lock", "daemon.socket")]
        assert modes == [0o600, 0o600]


def test_one_of_our_kind_is_enough(tmp_path: Path, lock: FileLock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_daemon, "_HANDOVER_S", 0.1)
    with lock:
        (tmp_path / "daemon.lock").write_text("\n".join(LockContent("1", "token", "stamp")))
        assert warm_daemon._lock(tmp_path, "stamp") is None
        assert warm_daemon._lock(tmp_path, "other") is None
    assert wait_for_lock(tmp_path / "daemon.lock", 0.0) is not None


def test_it_ends_when_its_lock_file_is_another_s(
    tmp_path: Path, lock: FileLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm_daemon, "_LOOK_S", 0.01)
    with lock, socket.socket(socket.AF_UNIX) as listener:
        daemon = WarmDaemon(tmp_path, "stamp", lock)
        daemon._listen(listener)
        (tmp_path / "daemon.lock").unlink()
        assert daemon._next() is None


def test_only_one_command_is_agreed_to(tmp_path: Path, lock: FileLock) -> None:
    ours, theirs = socket.socketpair()
    with lock, ours, theirs:
        daemon = WarmDaemon(tmp_path, "stamp", lock)
        assert [daemon._agree(ours) for _ in range(2)] == [True, False]
        lines = LineReader(theirs)
        assert [lines.next() for _ in range(2)] == [{"answer": "go"}, {"answer": "busy"}]


def test_the_log_does_not_grow_for_ever(
    tmp_path: Path, lock: FileLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm_daemon, "_LOG_BYTES", 100)
    with lock:
        daemon = WarmDaemon(tmp_path, "stamp", lock)
        for number in range(20):
            daemon._note(f"line {number}")
    text = (tmp_path / "daemon.log").read_text()
    assert len(text) < 200
    assert "line 19\n" in text


def test_a_command_has_its_client_s_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "given").write_text("what is given")
    files = [os.open(tmp_path / name, os.O_RDWR | os.O_CREAT) for name in ("given", "out", "err")]
    ours, theirs = socket.socketpair()
    before = (dict(os.environ), [os.fstat(number).st_ino for number in range(3)], Path.cwd())
    monkeypatch.setattr(tempfile, "tempdir", "/old")
    saved = [os.dup(number) for number in range(3)]
    command = {
        "cwd": str(tmp_path),
        "environment": {"TMPDIR": str(tmp_path), "PATH": os.environ["PATH"]},
        "streams": [("utf-8", "strict"), ("latin-1", "replace"), ("utf-8", "backslashreplace")],
    }
    try:
        with ours, theirs, warm_daemon._in_place_of(WarmJob(ours, command, files)):
            print(f"\xe4 {sys.stdin.read()}", tempfile.gettempdir(), Path.cwd(), sorted(os.environ))
            sys.stderr.write("\udcff")
            assert LineReader(theirs).next() == {"used": True}
        streams = [Path(f"/proc/self/fd/{number}").readlink() for number in range(3)]
    finally:
        for number, copy in enumerate(saved):
            os.dup2(copy, number)
            os.close(copy)
        os.chdir(before[2])
    assert streams == [Path(os.devnull)] * 3
    assert (dict(os.environ), [os.fstat(number).st_ino for number in range(3)], Path.cwd()) == before
    said = (tmp_path / "out").read_bytes()
    assert said == f"\xe4 what is given {tmp_path} {tmp_path} ['PATH', 'TMPDIR']\n".encode("latin-1")
    assert (tmp_path / "err").read_bytes() == b"\\udcff"
