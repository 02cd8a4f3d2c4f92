"""Locks of files, among descriptors of one process: `flock` knows no difference."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from codeflash_parallel.process.files import try_lock, wait_for_lock, write_atomically, write_once


def test_a_lock_is_free_again_when_its_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = wait_for_lock(path, 0.0)
    assert lock is not None
    with lock:
        assert try_lock(path) is None
        assert wait_for_lock(path, 0.01) is None
    lock.release()  # again is harmless
    again = try_lock(path)
    assert again is not None
    again.release()


def test_shared_locks_are_held_together(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = wait_for_lock(path, 0.0, fcntl.LOCK_SH)
    assert first is not None
    with first:
        second = try_lock(path, fcntl.LOCK_SH)
        assert second is not None
        with second:
            assert try_lock(path) is None


def test_only_waiting_makes_the_file(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert try_lock(path) is None
    assert not path.exists()
    lock = wait_for_lock(path, 0.0)
    assert lock is not None
    lock.release()
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_a_lock_of_a_file_that_was_removed_holds_no_longer(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    old = wait_for_lock(path, 0.0)
    assert old is not None
    path.unlink()
    new = wait_for_lock(path, 0.0)
    assert new is not None
    for lock in (old, new):
        lock.release()


@pytest.mark.parametrize("write", [write_atomically, write_once])
def test_a_file_is_written_whole_whatever_stood_there(tmp_path: Path, write: object) -> None:
    assert callable(write)
    elsewhere, path = tmp_path / "elsewhere", tmp_path / "new" / "file"
    elsewhere.write_bytes(b"mine")
    write(path, b"one")
    write(path, b"other")
    assert path.read_bytes() == b"other"
    path.unlink()
    path.symlink_to(elsewhere)
    write(path, b"mine")
    assert elsewhere.read_bytes() == path.read_bytes() == b"mine"
    assert not path.is_symlink()
    assert [entry.name for entry in path.parent.iterdir()] == ["file"]


def test_what_is_there_already_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_once(path, b"same")
    before = path.stat()
    write_once(path, b"same")
    assert path.stat() == before
