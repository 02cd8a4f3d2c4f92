"""The stamp of an interpreter, and the user's encoders: found where they are named, and copied."""

from __future__ import annotations

from pathlib import Path

import pytest

from codeflash_parallel.result.errors import UsageError
from codeflash_parallel.run.setup.project_interpreter import copied_encoders, environment_stamp


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in ("project/tools/own.py", "project/src/own/__init__.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(f"# {name}\n", encoding="utf-8")
    site = tmp_path / "venv/lib/python3.11/site-packages/installed"
    site.mkdir(parents=True)
    (site / "kinds.py").write_text("# installed\n", encoding="utf-8")
    (tmp_path / "venv/bin").mkdir()
    (tmp_path / "venv/bin/python").touch()
    return tmp_path


def copied(place: Path, *encoders: str) -> list[tuple[str, str]]:
    folder = place / "copies"
    found = copied_encoders(encoders, place / "project", place / "venv/bin/python", folder)
    assert all(Path(path).parent == folder for path, _ in found)
    return [(Path(path).read_text(encoding="utf-8"), name) for path, name in found]


def test_files_and_modules_are_found(place: Path) -> None:
    assert copied(
        place, "tools/own.py::encode", "tools.own:other", "own:encode", "installed.kinds:encode"
    ) == [
        ("# project/tools/own.py\n", "encode"),
        ("# project/tools/own.py\n", "other"),
        ("# project/src/own/__init__.py\n", "encode"),
        ("# installed\n", "encode"),
    ]


def test_a_copy_stays_as_it_was(place: Path) -> None:
    ((path, _),) = copied_encoders(
        ["tools.own:f"], place / "project", place / "venv/bin/python", place / "copies"
    )
    (place / "project/tools/own.py").write_text("changed\n", encoding="utf-8")
    assert Path(path).read_text(encoding="utf-8") == "# project/tools/own.py\n"


@pytest.mark.parametrize("encoder", ["missing.py::encode", "missing:encode", "tools:encode"])
def test_what_is_not_there_is_said(place: Path, encoder: str) -> None:
    with pytest.raises(UsageError) as caught:
        copied(place, encoder)
    assert caught.value.code == "BAD_SETTING"
    assert "missing" in caught.value.message or "tools" in caught.value.message


def make_interpreter(folder: Path) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "lib" / "python3" / "site-packages").mkdir(parents=True)
    return folder / "bin" / "python"


def test_the_stamp_of_an_environment_is_in_the_same_order_in_every_process(tmp_path: Path) -> None:
    """It names two folders: in the order of a set, half of all runs would not find their baseline."""
    base = make_interpreter(tmp_path / "base")
    base.touch()
    for number in range(8):
        own = make_interpreter(tmp_path / f"venv{number}")
        own.symlink_to(base)
        stamp = environment_stamp(own)
        places = [stamp.index(f"{folder / 'lib'}") for folder in (own.parent.parent, base.parent.parent)]
        assert places == sorted(places)


def test_the_stamp_changes_with_what_is_installed(tmp_path: Path) -> None:
    own = make_interpreter(tmp_path / "venv")
    own.touch()
    before = environment_stamp(own)
    (own.parent.parent / "lib" / "python3" / "site-packages" / "zz.pth").write_text("/elsewhere\n")
    assert environment_stamp(own) != before
