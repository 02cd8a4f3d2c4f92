"""Where things lie in the cache, and what its faults are called."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from codeflash_parallel.process.files import wait_for_lock
from codeflash_parallel.result.errors import EnvironmentFault
from codeflash_parallel.workspace import cache_layout
from codeflash_parallel.workspace.cache_layout import (
    CacheHome,
    cache_faults,
    disk_faults,
    locked,
    remove_tree,
)
from codeflash_parallel.workspace.git.git_client import GitFailed


def failed(stderr: str) -> GitFailed:
    return GitFailed(("checkout",), 128, stderr.encode())


def test_scratch_is_there_for_a_block(tmp_path: Path) -> None:
    with CacheHome(path=tmp_path).scratch() as folder:
        (folder / "index").touch()
        assert folder.parent == tmp_path / "tmp"
    assert not folder.exists()


def test_a_lock_that_another_one_holds_is_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_layout, "_LOCK_S", 0.02)
    path = tmp_path / "home" / "mirror.lock"
    with locked(path):
        with pytest.raises(EnvironmentFault) as caught:
            locked(path)
        assert caught.value.code == "CACHE_BUSY"
    lock = wait_for_lock(path, 0.0)
    assert lock is not None
    lock.release()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "DISK_FULL"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "DISK_FULL"),
        (OSError(errno.EROFS, "Read-only file system", "x"), "CACHE_UNWRITABLE"),
        (OSError(errno.EIO, "Input/output error"), "GIT_FAILED"),
        (failed("fatal: write error: No space left on device"), "DISK_FULL"),
        (failed("error: unable to create file: Permission denied"), "CACHE_UNWRITABLE"),
        (failed("fatal: bad object"), "GIT_FAILED"),
    ],
)
def test_a_fault_of_the_cache_has_a_code(tmp_path: Path, error: Exception, code: str) -> None:
    with pytest.raises(EnvironmentFault) as caught, cache_faults(tmp_path):
        raise error
    assert caught.value.code == code


def test_only_a_full_disk_is_a_fault_of_the_disk(tmp_path: Path) -> None:
    full, other = OSError(errno.ENOSPC, "full"), OSError(errno.ENOENT, "missing")
    with pytest.raises(EnvironmentFault), disk_faults(tmp_path):
        raise ExceptionGroup("both", [full, ExceptionGroup("inner", [full])])
    with pytest.raises(ExceptionGroup), disk_faults(tmp_path):
        raise ExceptionGroup("both", [full, other])
    with pytest.raises(FileNotFoundError), disk_faults(tmp_path):
        raise other


def test_trees_are_removed_however_deep_or_locked_they_are(tmp_path: Path) -> None:
    top = tmp_path / "top"
    (top / "locked").mkdir(parents=True)
    (top / "locked" / "file").touch()
    (top / "locked").chmod(0o500)
    (top / "link").symlink_to("/")
    before = Path.cwd()
    os.chdir(top)
    try:
        for _ in range(1500):  # deeper than a path may be long, and than Python recurses
            Path("deep").mkdir()
            os.chdir("deep")
    finally:
        os.chdir(before)
    remove_tree(top)
    assert not top.exists()
    remove_tree(top)  # what is missing is fine
