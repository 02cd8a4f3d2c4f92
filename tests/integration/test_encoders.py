"""The user's encoders are found where they are named, and copied."""

from __future__ import annotations

from pathlib import Path

import pytest

from codeflash_parallel.result.errors import UsageError
from codeflash_parallel.run.setup.project_interpreter import copied_encoders


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
