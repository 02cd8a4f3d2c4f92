"""Status of a path: what counts of it, and what is read of a whole folder."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from codeflash_parallel.workspace.tree_guard import look, names_in, parents, scan


def test_a_change_of_content_mode_or_kind_changes_the_status(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("one")
    seen = [look(path)]
    path.write_text("three")
    seen.append(look(path))
    path.chmod(0o755)
    seen.append(look(path))
    path.unlink()
    path.symlink_to("elsewhere")
    seen.append(look(path))
    assert len(set(seen)) == len(seen)


def test_a_folder_is_its_mode_alone(tmp_path: Path) -> None:
    before = look(tmp_path)
    (tmp_path / "new").write_text("x")
    assert look(tmp_path) == before == (os.lstat(tmp_path).st_mode, 0, 0, 0, 0)


def test_a_link_is_looked_at_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    seen = look(tmp_path / "link")
    assert seen is not None
    assert stat.S_ISLNK(seen[0])


@pytest.mark.parametrize("name", ["missing", "file/below", "n" * 300])
def test_nothing_lies_at_a_path_that_is_not_there(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("x")
    assert look(tmp_path / name) is None


def test_all_that_lies_below_a_folder_is_found_and_links_are_not_entered(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/file").write_text("xyz")
    (tmp_path / "link").symlink_to("a")
    found = dict(scan(tmp_path))
    assert set(found) == {"a", "a/b", "a/b/file", "link"}
    assert found["a/b/file"].st_size == 3
    assert list(scan(tmp_path / "missing")) == []


def test_names_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert names_in(tmp_path) == ["file"]
    assert names_in(tmp_path / "file") == names_in(tmp_path / "missing") == []


@pytest.mark.parametrize(("path", "above"), [("", []), ("a", [""]), ("a/b/c", ["", "a", "a/b"])])
def test_folders_above_a_path(path: str, above: list[str]) -> None:
    assert parents(path) == above
