"""Files that a unit of an arm leaves behind: real folders."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from codeflash_parallel.race.worker.leftover_files import (
    LeftoverFiles,
    SharedMemoryLeftovers,
    private_folders,
    read_shared,
)
from codeflash_parallel.result.runtime_protocols import Workspace


def test_private_folders_are_those_of_the_workspace(tmp_path):
    private = tmp_path / "private"
    (private / "home").mkdir(parents=True)
    names = {"HOME": private / "home", "TMPDIR": private / "gone", "PATH": "/usr/bin", "OTHER": tmp_path}
    workspace = Workspace(
        root=tmp_path, project=tmp_path, user_root=tmp_path, interpreter=tmp_path, private=private,
        environment={name: str(value) for name, value in names.items()},
    )  # fmt: skip

    assert private_folders(workspace) == {private / "home"}


def test_what_is_new_is_removed(tmp_path):
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "file").write_text("1")
    outside = tmp_path.with_name("outside")
    outside.mkdir()
    (outside / "file").write_text("1")
    leftovers = LeftoverFiles([tmp_path])
    (tmp_path / "old" / "new").mkdir()
    (tmp_path / "old" / "new" / "file").write_text("1")
    (tmp_path / "new").write_text("1")
    (tmp_path / "link").symlink_to(outside)

    assert leftovers.remove()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "old"]
    assert (outside / "file").exists()
    assert leftovers.remove()


def test_what_cannot_be_undone_is_said(tmp_path):
    file = tmp_path / "file"
    file.write_text("1")
    times = file.stat()
    leftovers = LeftoverFiles([tmp_path])
    file.write_text("2")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))

    assert not leftovers.remove()
    file.unlink()
    assert not leftovers.remove()


def test_no_link_is_followed_into_what_is_others(tmp_path):
    """A candidate that could not write there must not have us do it."""
    others, private = tmp_path / "others", tmp_path / "private"
    for folder in (others, private / "home" / "cache"):
        folder.mkdir(parents=True)
    leftovers = LeftoverFiles([private / "home"])
    (others / "precious").write_text("1")
    (private / "home" / "cache").rmdir()
    (private / "home" / "cache").symlink_to(others)
    (private / "home" / "new").symlink_to(others)
    assert not leftovers.remove()
    (private / "home").rename(private / "moved")
    (private / "home").symlink_to(others)
    assert not leftovers.remove()
    assert (others / "precious").exists()


def test_folders_nested_without_end_are_said_and_break_nothing(tmp_path):
    leftovers = LeftoverFiles([tmp_path])
    folder = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1100):
        os.mkdir("d", dir_fd=folder)
        inner = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    try:
        assert leftovers.remove() is (not (tmp_path / "d").exists())
    finally:
        subprocess.run(["rm", "-rf", str(tmp_path / "d")], check=True)


def test_folders_are_seen_as_a_process_sees_them(tmp_path):
    (tmp_path / "home").mkdir()
    leftovers = LeftoverFiles([tmp_path / "home"], Path("/proc/self/root"))
    (tmp_path / "home" / "new").write_text("1")
    assert leftovers.remove()
    assert not (tmp_path / "home" / "new").exists()


def test_shared_memory_is_attributed_to_who_ran():
    names = {"old"}
    shared = SharedMemoryLeftovers(lambda: frozenset(names))
    names.add("a")
    shared.note(["one"])
    names.add("b")
    shared.note(["two"])
    names.remove("b")
    names.add("c")
    shared.note(["three", "four"])

    assert shared.unclean() == {"one", "three", "four"}


def test_shared_memory_of_this_machine_can_be_read():
    assert isinstance(read_shared(), frozenset)
