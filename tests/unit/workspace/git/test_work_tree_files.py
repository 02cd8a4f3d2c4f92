"""The files of a work tree that belong to a snapshot."""

from __future__ import annotations

from pathlib import Path

from worktree_support import World, world

from codeflash_parallel.workspace.git.git_client import find_repository
from codeflash_parallel.workspace.git.work_tree_files import WorkTreeListing, list_folder, list_work_tree

__all__ = ["world"]


def listed(world: World, *patterns: str) -> WorkTreeListing:
    world.freeze()
    scratch = world.base / "scratch"
    scratch.mkdir()
    return list_work_tree(find_repository(world.root), patterns, scratch)


def test_tracked_and_untracked_files_are_listed_and_removed_ones_are_not(world: World) -> None:
    world.init({"a.py": "", "gone.py": "", ".gitignore": "*.log\n"})
    world.write({"new.py": "", "x.log": ""})
    (world.root / "gone.py").unlink()
    (world.root / "link").symlink_to("a.py")
    found = listed(world)
    assert found.files == (".gitignore", "a.py", "link", "new.py")
    assert (found.ignored, found.left_out, found.hollow) == ((), ("x.log",), ())


def test_ignored_files_are_chosen_by_name_and_never_from_an_environment(world: World) -> None:
    world.init({".gitignore": "*.so\n.venv/\nmade/\n"})
    world.write({"fast.so": "", ".venv/lib/other.so": "", "made/inner/deep.so": "", "made/notes.txt": ""})
    found = listed(world, "*.so")
    assert found.ignored == ("fast.so", "made/inner/deep.so")
    assert ".venv/" in found.left_out


def test_a_folder_of_tests_is_listed_without_bytecode(tmp_path: Path) -> None:
    for name in ("test_b.py", "sub/test_a.py", "sub/test_a.pyc"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert list_folder(tmp_path) == ("sub/test_a.py", "test_b.py")
