"""Dispatch of commands, help, and JSON from every command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from codeflash_parallel.cli import main as main_module
from codeflash_parallel.cli.main import LEAVES, find_command, main

#: Command → arguments, exit code, and a field of the document or of its error (`error.…`) with its value.
JSON_CALLS = {
    "run": ((), 2, "error.code", "NO_CANDIDATES"),
    "check": ((), 2, "error.code", "NO_CANDIDATES"),
    "resume": ((), 2, "error.code", "NO_SUCH_RUN"),
    "apply": ((), 2, "error.code", "NO_SUCH_RUN"),
    "show": ((), 2, "error.code", "NO_SUCH_RUN"),
    "report": ((), 2, "error.code", "NO_SUCH_RUN"),
    "list": ((), 0, "", []),
    "clean": ((), 0, "removed", []),
    "serve": (("--project", "absent"), 2, "error.code", "NO_PROJECT"),
    "doctor": (("--python", sys.executable), 0, "fit", True),
    "score": (("absent.py", "--target", "a.py"), 2, "error.code", "NO_SUCH_TARGET"),
    "codeflash": ((), 2, "error.code", "BAD_ARGUMENTS"),
    "gate": (("--base", "absent"), 2, "error.code", "BAD_BASE"),
    "mcp": (("--project", "absent"), 2, "error.code", "NO_PROJECT"),
    "queue submit": ((), 2, "error.code", "NO_CANDIDATES"),
    "queue wait": (("j1",), 2, "error.code", "UNKNOWN_JOB"),
    "queue result": (("j1",), 2, "error.code", "UNKNOWN_JOB"),
    "queue status": ((), 0, "jobs", []),
    "queue list": ((), 0, "jobs", []),
    "queue report": ((), 0, "jobs", []),
    "queue cancel": (("j1",), 2, "error.code", "UNKNOWN_JOB"),
    "queue pause": ((), 0, "error", None),
    "queue unpause": ((), 0, "error", None),
    "queue retry": (("j1",), 2, "error.code", "UNKNOWN_JOB"),
    "queue dead": ((), 0, "jobs", []),
    "queue metrics": ((), 0, "codeflash_parallel_queue_paused", 0.0),
}


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> Path:
    """Make a repository without runs, a cache, and a queue without jobs."""
    root = tmp_path / "repository"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    subprocess.run(["git", "init", "--quiet", str(root)], check=True, env=environment)
    monkeypatch.chdir(root)
    monkeypatch.setenv("CODEFLASH_PARALLEL_CACHE_DIR", str(tmp_path / "cache"))
    main(["queue", "pause"])
    main(["queue", "unpause"])
    capsys.readouterr()
    return root


@pytest.mark.parametrize("spelling", [("--json",), ("--output-format", "json")], ids="".join)
@pytest.mark.parametrize("name", LEAVES)
def test_every_command_writes_one_json_document(
    name: str, spelling: tuple[str, ...], repository: Path, capsys
) -> None:
    arguments, code, field, value = JSON_CALLS[name]
    assert main([*name.split(), *arguments, *spelling]) == code
    data = json.loads(capsys.readouterr().out)
    for part in filter(None, field.split(".")):
        data = data[part]
    assert data == value


@pytest.mark.slow
@pytest.mark.parametrize("name", LEAVES)
def test_every_command_writes_into_a_file_instead(name: str, repository: Path, capsys) -> None:
    arguments, code, _, _ = JSON_CALLS[name]
    assert main([*name.split(), *arguments, "--json", "--output", "new/result.json"]) == code
    assert capsys.readouterr().out == ""
    json.loads((repository / "new" / "result.json").read_text())


@pytest.mark.parametrize("name", LEAVES)
def test_every_command_is_found_and_explains_its_options(name: str, capsys) -> None:
    assert find_command(name).run.__doc__
    assert main([*name.split(), "--help"]) == 0
    said = capsys.readouterr().out
    for option in ("--project", "--cache-dir", "--json", "--output-format", "--output PATH"):
        assert option in said


def test_a_wrong_command_line_still_gives_its_document(tmp_path: Path, capsys) -> None:
    target = tmp_path / "result.json"
    code = main(["run", "--no-such-option", "--output-format", "json", "--output", str(target)])
    assert code == 2
    assert json.loads(target.read_text())["error"]["code"] == "BAD_ARGUMENTS"
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert "--no-such-option" in captured.err


@pytest.mark.parametrize(
    ("arguments", "hint"), [(["rum"], "'run'"), (["zzz"], "doctor"), (["run", "--sed"], "--seed")]
)
def test_mistakes_get_a_hint(arguments: list[str], hint: str, capsys) -> None:
    assert main(arguments) == 2
    assert hint in capsys.readouterr().err


def test_help_and_version(capsys) -> None:
    assert main([]) == 2
    assert main(["--help"]) == 0
    assert main(["run", "--help"]) == 0
    assert main(["--version"]) == 0
    assert "codeflash-parallel 0" in capsys.readouterr().out


def test_elsewhere_than_linux_one_line(monkeypatch, capsys) -> None:
    monkeypatch.setattr(main_module.sys, "platform", "darwin")
    code = main(["--help"])
    monkeypatch.undo()
    assert code == 4
    assert capsys.readouterr().err.count("\n") == 1


def test_the_program_reads_its_own_arguments(monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", ["codeflash-parallel", "--version"])
    assert main() == 0
    assert capsys.readouterr().out
