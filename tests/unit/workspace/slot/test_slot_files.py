"""What is staged in a slot: journal, conflicts, and the old bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from codeflash_parallel.result.candidate_model import Edit, digest_of
from codeflash_parallel.workspace.slot.slot_files import (
    JOURNAL,
    SlotKind,
    StageConflict,
    Stager,
    clone,
    clones_work,
    cost_of,
    note_staging,
    note_undone,
    staged_in,
)
from codeflash_parallel.workspace.tree_guard import OriginalFile, TreeGuard, write_file

OLD = b"value = 1\n"


@pytest.fixture
def stager(tmp_path: Path) -> Stager:
    tree = tmp_path / "tree"
    (tree / "pkg").mkdir(parents=True)
    write_file(tree / "pkg" / "mod.py", OriginalFile(data=OLD, mode=0o100644))
    guard = TreeGuard(tree, lambda _paths: {}, lambda place: place.unlink(missing_ok=True))
    return Stager(tree=guard, folder=tmp_path)


def edit(path: str, new: bytes | None, old: bytes | None = None) -> Edit:
    return Edit(path=path, old_digest=None if old is None else digest_of(old), new=new)


def test_edits_are_written_noted_and_undone(stager: Stager) -> None:
    stager.stage([edit("pkg/mod.py", b"value = 2\n", OLD), edit("pkg/new.py", b"")])
    assert (stager.tree.root / "pkg" / "mod.py").read_bytes() == b"value = 2\n"
    assert staged_in(stager.folder) == ("pkg/mod.py", "pkg/new.py")
    assert stager.tree.changes() == ()  # what was staged is expected
    stager.tree.restore()
    note_undone(stager.folder)
    assert (stager.tree.root / "pkg" / "mod.py").read_bytes() == OLD
    assert not (stager.tree.root / "pkg" / "new.py").exists()
    assert staged_in(stager.folder) == ()


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (edit("pkg/mod.py", b"", b"something else"), "not the file that the candidate was made for"),
        (edit("pkg/mod.py", b""), "it exists already"),
        (edit("pkg/none.py", None), "cannot be removed"),
        (edit("pkg/mod.py/below.py", b""), "is not a folder"),
        (edit("../outside.py", b""), r"\.\./outside"),
    ],
)
def test_nothing_is_written_where_one_edit_does_not_fit(stager: Stager, wrong: Edit, reason: str) -> None:
    with pytest.raises(StageConflict, match=reason) as caught:
        stager.stage([edit("pkg/first.py", b""), wrong])
    assert caught.value.path == wrong.path
    assert not (stager.tree.root / "pkg" / "first.py").exists()
    assert staged_in(stager.folder) == ()


def test_a_folder_that_becomes_empty_goes_with_its_last_file(stager: Stager) -> None:
    stager.stage([edit("pkg/mod.py", None, OLD)])
    assert not (stager.tree.root / "pkg").exists()


def test_a_torn_line_of_the_journal_says_nothing(tmp_path: Path) -> None:
    note_staging(tmp_path, ["b.py", "a.py"])
    with (tmp_path / JOURNAL).open("ab") as journal:
        journal.write(b'{"staged": ["c.p')
    assert staged_in(tmp_path) == ("a.py", "b.py")


def test_a_tree_is_cloned_where_the_file_system_shares_blocks(tmp_path: Path) -> None:
    source, copy, probe = tmp_path / "source", tmp_path / "copy", tmp_path / "probe"
    for folder in (source, copy, probe):
        folder.mkdir()
    (source / "a.py").write_bytes(OLD)
    assert clone(source, copy) == clones_work(probe)


def test_the_cost_of_a_slot_leaves_out_what_it_shares(tmp_path: Path) -> None:
    tree, admin = tmp_path / "tree", tmp_path / "admin"
    for folder in (tree, admin, tmp_path / "private"):
        folder.mkdir()
    (tree / "a.py").write_bytes(b"x" * 8192)
    guards = [TreeGuard(folder, lambda _paths: {}, Path.unlink) for folder in (tree, admin)]
    whole, shared = (cost_of(kind, tmp_path, guards) for kind in (SlotKind.WORKTREE, SlotKind.REFLINK))
    assert whole.bytes - shared.bytes == 512 * guards[0].files
    assert whole.inodes == shared.inodes
