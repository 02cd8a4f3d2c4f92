"""The command line with streams, folders and surroundings that are closed, full or gone: always one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from projects import make_project

PROGRAM = f"{sys.executable} -m codeflash_parallel"

#: No user of this machine has this number.
NOBODY = 54321


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project")


def shell(line: str, at: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CODEFLASH")}
    own = {"CODEFLASH_PARALLEL_CACHE_DIR": str(at.parent / "cache"), **environment}
    command = f"{line.replace('PROGRAM', PROGRAM)}"
    return subprocess.run(
        ("/bin/sh", "-c", command), cwd=at, env=kept | own, capture_output=True, text=True, check=False
    )


def assert_told(done: subprocess.CompletedProcess[str], status: int, words: str) -> None:
    assert done.returncode == status, done.stderr
    assert done.stderr.startswith("error: ")
    assert words in done.stderr
    assert "defect" not in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        "--help",
        "--version",
        "run --help",
        "list",
        "list --output-format json",
        "list --output-format jsonl",
        "run --output-format json",
        "run --output-format jsonl",
    ],
)
def test_a_full_standard_output(project: Path, arguments: str) -> None:
    done = shell(f"PROGRAM {arguments} >/dev/full", project)
    status = 2 if arguments.startswith("run --output") else 4  # what went wrong first
    assert_told(done, status, "The standard output cannot be written: No space left on device")


@pytest.mark.parametrize("form", ["json", pytest.param("jsonl", marks=pytest.mark.witness)])
@pytest.mark.parametrize(
    "command", ["run", "check --candidates ../candidates --function shop/sums.py::total -q"]
)
def test_a_full_place_of_the_result(project: Path, command: str, form: str) -> None:
    """The document of what went wrong is on the standard output then, and each fault is told once."""
    folder = project.parent / "candidates"
    folder.mkdir()
    (folder / "a.py").write_text("def total(values):\n    return sum(values)\n")
    done = shell(f"PROGRAM {command} --output-format {form} --output /dev/full", project)
    assert_told(done, 2 if command == "run" else 4, "/dev/full cannot be written: No space left on device")
    assert done.stderr.count("cannot be written") == 1
    code = "NO_CANDIDATES" if command == "run" else "OUTPUT_UNWRITABLE"
    assert json.loads(done.stdout)["error"]["code"] == code


@pytest.mark.parametrize(
    ("line", "status", "words"),
    [
        ("PROGRAM run 2>&-", 2, ""),
        ("PROGRAM run >&-", 2, "No candidates are named"),
        ("PROGRAM list >&-", 0, ""),
        ("PROGRAM check --candidates - <&-", 2, "there is no standard input"),
        ("PROGRAM check --candidates ''", 2, "its value is empty"),
    ],
)
def test_closed_streams(project: Path, line: str, status: int, words: str) -> None:
    done = shell(line, project)
    assert done.returncode == status
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (f"PROGRAM list --project {'a' * 300}", ""),
        ("mkdir gone; cd gone; rmdir ../gone; PROGRAM list", "No such file or directory"),
        ("echo 'tool = 3' > pyproject.toml; PROGRAM list", "tool must be a table"),
        ("PROGRAM clean --older-than nan", "number of days"),
        ("PROGRAM clean --older-than soon", "number of days"),
        ("PROGRAM check --candidates . --wall-budget inf", "wall_budget must be a finite number"),
    ],
)
def test_callers_mistakes_are_no_defects(project: Path, line: str, words: str) -> None:
    assert_told(shell(line, project), 2, words)


def test_a_manifest_that_is_nested_too_deeply(project: Path) -> None:
    (project.parent / "deep.jsonl").write_text("[" * 100_000)
    assert_told(shell("PROGRAM check --candidates ../deep.jsonl", project), 2, "deep.jsonl:1: ")


def test_half_an_emoji_in_a_manifest(project: Path) -> None:
    (project.parent / "odd.jsonl").write_text(json.dumps({"id": "odd", "replacement": "# \ud83d"}))
    done = shell("PROGRAM check --candidates ../odd.jsonl", project)
    assert_told(done, 2, "odd.jsonl:1: replacement cannot be written to a file")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody who has no home")
@pytest.mark.parametrize(
    ("arguments", "status"), [("--version", 0), ("clean --dry-run", 4), ("clean --dry-run --cache-dir /x", 0)]
)
def test_a_user_without_a_home(arguments: str, status: int) -> None:
    unset = "env -u HOME -u XDG_CONFIG_HOME -u XDG_CACHE_HOME -u CODEFLASH_PARALLEL_CACHE_DIR"
    user = f"setpriv --reuid={NOBODY} --clear-groups"
    done = shell(f"{unset} {user} PROGRAM {arguments}", Path("/"))
    assert done.returncode == status
    assert ("There is no place for a cache" in done.stderr) == (status == 4)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["list", "doctor", "show --candidate a"])
def test_lines_are_lines(project: Path, command: str) -> None:
    run = project.parent / "candidates"
    run.mkdir()
    (run / "a.py").write_text("def total(values):\n    return sum(v * v for v in values)\n")
    if command.startswith("show"):
        made = shell("PROGRAM check --candidates ../candidates --function shop/sums.py::total -q", project)
        assert made.returncode == 0, made.stderr
    done = shell(f"PROGRAM {command} --output-format jsonl", project)
    assert "defect" not in done.stderr
    (line,) = done.stdout.splitlines()
    data = json.loads(line)
    assert data["id"] == "a" if command.startswith("show") else isinstance(data, list | dict)
