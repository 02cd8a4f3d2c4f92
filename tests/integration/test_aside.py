"""Files that lie elsewhere for a while come back as they were, and what was done to them meanwhile is found."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from codeflash_parallel.workspace.slot.slot import ASIDE, HiddenFiles, SlotTrash
from codeflash_parallel.workspace.tree_guard import OriginalFile, TreeGuard, look, write_file

FILES = {
    "lib.py": "lib",
    "test_lib.py": "test of lib",
    "__pycache__/test_lib.cpython-311-pytest-8.pyc": "bytecode",
    "__pycache__/lib.cpython-311.pyc": "bytecode",
    "tests/test_a.py": "a",
    "tests/data/a.csv": "1,2",
}


class Place:
    def __init__(self, folder: Path) -> None:
        self.folder, self.root = folder, folder / "tree"
        for name, text in FILES.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text, encoding="utf-8")
        self.waste = SlotTrash(folder)
        self.guard = TreeGuard(self.root, self._originals, self.waste.drop)
        self.aside = HiddenFiles(tree=self.guard, folder=folder, drop=self.waste.drop)

    def _originals(self, paths: Sequence[str]) -> dict[str, OriginalFile]:
        return {path: OriginalFile(data=FILES[path].encode(), mode=0o100644) for path in paths}

    def names(self) -> set[str]:
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file()}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_what_is_aside_is_nowhere_in_the_tree_and_comes_back_unchanged(place: Place) -> None:
    place.aside.put(["tests", "test_lib.py", "missing.py"])
    assert place.names() == {"lib.py", "__pycache__/lib.cpython-311.pyc"}
    assert not (place.root / "tests").exists()
    place.aside.back()
    assert place.names() == set(FILES)
    assert place.guard.changes() == ()
    assert not (place.folder / ASIDE).exists()


def test_it_can_be_done_again_and_again(place: Place) -> None:
    for _ in range(3):
        place.aside.put(["tests", "test_lib.py"])
        place.aside.back()
        place.aside.back()
    assert place.guard.restore() == ()


def test_putting_others_aside_brings_the_first_ones_back(place: Place) -> None:
    place.aside.put(["tests"])
    place.aside.put(["test_lib.py"])
    assert (place.root / "tests/test_a.py").exists()
    place.aside.back()
    assert place.guard.changes() == ()


def test_what_is_changed_meanwhile_is_found(place: Place) -> None:
    place.aside.put(["test_lib.py", "tests"])
    away = {path.read_text(encoding="utf-8"): path for path in (place.folder / ASIDE).rglob("*.py")}
    away |= {
        path.read_text(encoding="utf-8"): path for path in (place.folder / ASIDE).iterdir() if path.is_file()
    }
    for text in ("test of lib", "a"):
        seen = look(away[text])
        assert seen is not None
        away[text].write_text(text.upper(), encoding="utf-8")
        os.utime(away[text], ns=(seen[2], seen[2]))
    place.aside.back()
    assert place.guard.changes() == ("test_lib.py", "tests/test_a.py")
    assert place.guard.restore() == ("test_lib.py", "tests/test_a.py")
    assert (place.root / "test_lib.py").read_text(encoding="utf-8") == "test of lib"


def test_what_was_changed_before_is_still_found(place: Place) -> None:
    (place.root / "test_lib.py").write_text("other", encoding="utf-8")
    place.aside.put(["test_lib.py"])
    place.aside.back()
    assert place.guard.changes() == ("test_lib.py",)


def test_what_somebody_puts_in_its_place_goes(place: Place) -> None:
    place.aside.put(["test_lib.py", "tests"])
    (place.root / "test_lib.py").write_text("another", encoding="utf-8")
    (place.root / "tests").mkdir()
    (place.root / "tests/test_a.py").write_text("another", encoding="utf-8")
    place.aside.back()
    assert (place.root / "test_lib.py").read_text(encoding="utf-8") == "test of lib"
    assert (place.root / "tests/test_a.py").read_text(encoding="utf-8") == "a"
    assert place.guard.changes() == ()


def test_a_folder_that_has_become_a_link_is_not_followed(place: Place, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    place.aside.put(["tests/test_a.py"])
    shutil.rmtree(place.root / "tests")
    (place.root / "tests").symlink_to(elsewhere)
    place.aside.back()
    assert list(elsewhere.iterdir()) == []
    assert "tests/test_a.py" in place.guard.restore()
    assert place.names() == set(FILES)


def test_what_a_candidate_edits_stays(place: Place) -> None:
    write_file(place.root / "tests/test_a.py", OriginalFile(data=b"edited", mode=0o100644))
    place.guard.expect(["tests/test_a.py"], {"tests/test_a.py": b"edited"})
    place.aside.put(["tests", "test_lib.py"])
    assert (place.root / "tests/test_a.py").read_text(encoding="utf-8") == "edited"
    place.aside.back()
    assert place.guard.changes() == ()


def _is_another(folder: Path, than: Path) -> bool:
    return os.access(folder, os.W_OK) and folder.stat().st_dev != than.stat().st_dev
