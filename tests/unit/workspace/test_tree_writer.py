from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from codeflash_parallel.result.candidate_model import Edit, digest_of
from codeflash_parallel.result.errors import EnvironmentFault, UsageError
from codeflash_parallel.workspace.tree_writer import write_edits


def edit(path: str, old: bytes | None, new: bytes | None, *, executable: bool = False) -> Edit:
    return Edit(path=path, old_digest=None if old is None else digest_of(old), new=new, executable=executable)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    root.mkdir()
    (root / "m.py").write_bytes(b"old\r\n")
    (root / "run.sh").write_bytes(b"old\n")
    (root / "run.sh").chmod(0o750)
    return root


def test_files_are_changed_added_and_removed(root: Path) -> None:
    (root / "gone.py").write_bytes(b"x")
    lines = write_edits(
        root,
        [edit("m.py", b"old\r\n", b"new\r\n"), edit("new/n.py", None, b"n\n"), edit("gone.py", b"x", None)],
    )
    assert lines == ["changed: m.py", "new: new/n.py", "removed: gone.py"]
    assert (root / "m.py").read_bytes() == b"new\r\n"
    assert (root / "new" / "n.py").read_bytes() == b"n\n"
    assert not (root / "gone.py").exists()
    assert {p.name for p in root.iterdir()} == {"m.py", "run.sh", "new"}


@pytest.mark.parametrize(("executable", "mode"), [(True, 0o750), (False, 0o640)])
def test_modes_are_kept(root: Path, executable: bool, mode: int) -> None:
    write_edits(root, [edit("run.sh", b"old\n", b"new\n", executable=executable)])
    assert stat.S_IMODE((root / "run.sh").stat().st_mode) == mode


def test_a_new_executable(root: Path) -> None:
    write_edits(root, [edit("tool", None, b"x", executable=True)])
    assert os.access(root / "tool", os.X_OK)


def test_a_file_that_changed_is_not_touched_nor_any_other(root: Path) -> None:
    with pytest.raises(UsageError) as caught:
        write_edits(root, [edit("run.sh", b"old\n", b"new\n"), edit("m.py", b"older\n", b"new\n")])
    assert caught.value.code == "FILE_CHANGED"
    assert (root / "run.sh").read_bytes() == b"old\n"


def test_again_is_harmless(root: Path) -> None:
    for expected in (["changed: m.py"], ["already there: m.py"]):
        assert write_edits(root, [edit("m.py", b"old\r\n", b"new\r\n")]) == expected


@pytest.mark.parametrize("path", ["../out.py", "inside/link/x.py", ".git/hooks/pre-commit", "link.py"])
def test_nothing_is_written_outside(root: Path, tmp_path: Path, path: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "t.py").write_bytes(b"t")
    (root / "inside").mkdir()
    (root / "inside" / "link").symlink_to(tmp_path / "elsewhere")
    (root / "link.py").symlink_to(tmp_path / "elsewhere" / "t.py")
    with pytest.raises(UsageError):
        write_edits(root, [edit(path, None, b"x")])
    assert (tmp_path / "elsewhere" / "t.py").read_bytes() == b"t"


def test_a_failure_half_way_undoes_what_was_done(root: Path) -> None:
    (root / "file").write_bytes(b"")
    with pytest.raises((EnvironmentFault, UsageError)):
        write_edits(root, [edit("m.py", b"old\r\n", b"new\r\n"), edit("file/x.py", None, b"x")])
    assert (root / "m.py").read_bytes() == b"old\r\n"
