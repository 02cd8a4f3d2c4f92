from __future__ import annotations

from pathlib import Path

import pytest

from codeflash_parallel.process.atomic_file import write_atomically, write_once


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
