"""What a cached baseline knows of the interpreter."""

from __future__ import annotations

from pathlib import Path

from codeflash_parallel.run.setup.project_interpreter import environment_stamp


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
