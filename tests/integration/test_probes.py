from __future__ import annotations

import sys
from pathlib import Path

import pytest

from codeflash_parallel.cli.doctor_checks.interpreter_probe import versions, why_not_warm
from codeflash_parallel.cli.exit_codes import ExitCode
from codeflash_parallel.cli.main import main

HERE = Path(sys.executable)

THREAD = """
import threading
stop = threading.Event()
threading.Thread(target=stop.wait, name="watcher", daemon=True).start()
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Give a function that installs a plugin of pytest for every interpreter that is started."""

    def install(text: str) -> None:
        (tmp_path / "noisy.py").write_text(text)
        info = tmp_path / "noisy-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: noisy\nVersion: 1\n")
        (info / "entry_points.txt").write_text("[pytest11]\nnoisy = noisy\n")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    return install


def script(folder: Path, text: str) -> Path:
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_this_interpreter_can_be_a_template() -> None:
    assert why_not_warm(HERE) == ""
    assert versions(HERE)["pytest"]


def test_a_plugin_that_starts_a_thread_is_named(plugin) -> None:
    plugin(THREAD)
    assert why_not_warm(HERE) == "a plugin of pytest starts a thread: watcher"


def test_a_plugin_that_cannot_be_imported_is_not_our_business(plugin) -> None:
    plugin("raise RuntimeError")
    assert why_not_warm(HERE) == ""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("echo no >&2; echo luck >&2; exit 3", "luck"),
        ("exit 3", "it ends with status 3"),
        ("kill -9 $$", "status -9"),
    ],
)
def test_an_interpreter_that_fails(tmp_path: Path, text: str, why: str) -> None:
    assert why in why_not_warm(script(tmp_path, text))
    assert versions(tmp_path / "python") == {}


def test_an_interpreter_that_is_none(tmp_path: Path) -> None:
    assert "does not run" in why_not_warm(tmp_path / "absent")


def test_doctor_says_it(plugin, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    main(["doctor", "--python", sys.executable])
    assert "possible" in capsys.readouterr().out
    plugin(THREAD)
    main(["doctor", "--python", sys.executable])
    assert "starts a thread: watcher: every check is a new process" in capsys.readouterr().out
    main(["doctor", "--python", sys.executable, "--new-process"])
    assert "switched off" in capsys.readouterr().out


@pytest.mark.parametrize(("asked", "words"), [("1", "1 slot"), ("900", "900 slots, more than the")])
def test_doctor_says_how_many_checks_run_at_once(capsys, monkeypatch, asked: str, words: str) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    main(["doctor", "--python", sys.executable, "-j", asked])
    line = next(
        line for line in capsys.readouterr().out.splitlines() if line.startswith("parallel candidates")
    )
    assert words in line


def test_doctor_says_what_slots_would_be(tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    main(["doctor", "--python", sys.executable, "--cache-dir", str(tmp_path / "cache")])
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("slots"))
    assert line.split()[1].rstrip(";") in {"worktree", "reflink"}
    assert list(tmp_path.iterdir()) == []


def test_doctor_tells_a_cache_that_cannot_be(tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    (tmp_path / "file").touch()
    code = main(["doctor", "--python", sys.executable, "--cache-dir", str(tmp_path / "file" / "cache")])
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("cache  "))
    assert f"{tmp_path / 'file'} cannot be written (Not a directory); name another with --cache-dir." in line
    assert code == ExitCode.UNFIT
