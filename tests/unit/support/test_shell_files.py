"""Completions and the man page know every command, and bash takes its completion."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from codeflash_parallel.cli.main import LEAVES

ROOT = Path(__file__).parents[3]

#: Completes the words that it is given, as a terminal would.
COMPLETE = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
$(complete -p codeflash-parallel | sed 's/.*-F \\([^ ]*\\).*/\\1/') codeflash-parallel "${COMP_WORDS[COMP_CWORD]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@cache
def files() -> dict[str, str]:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {Path(path).name: text for path, text in module.shell_files().items()}


def completed(folder: Path, *words: str) -> set[str]:
    script = folder / "completion"
    script.write_text(files()["codeflash-parallel"])
    command = ["bash", "--norc", "-c", COMPLETE, "bash", str(script), "codeflash-parallel", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True, cwd=folder)
    return set(done.stdout.split())


def test_bash_completes_commands_options_and_choices(tmp_path: Path):
    assert {"run", "check", "queue", "doctor"} <= completed(tmp_path, "")
    assert completed(tmp_path, "run", "--candidat") == {"--candidates", "--candidate"}
    assert {"submit", "wait"} <= completed(tmp_path, "queue", "")
    assert completed(tmp_path, "run", "--output-format", "j") == {"json", "jsonl"}


def test_bash_completes_paths_where_an_option_takes_one(tmp_path: Path):
    (tmp_path / "candidates.jsonl").write_text("")
    assert "candidates.jsonl" in completed(tmp_path, "run", "--candidates", "cand")


@pytest.mark.parametrize("name", ["codeflash-parallel", "_codeflash-parallel", "codeflash-parallel.1"])
def test_every_command_is_known(name: str):
    missing = [command for command in LEAVES if command.rpartition(" ")[2] not in files()[name]]
    assert missing == []


@pytest.mark.skipif(shutil.which("man") is None, reason="there is no man here")
def test_the_man_page_has_no_warning(tmp_path: Path):
    page = tmp_path / "codeflash-parallel.1"
    page.write_text(files()["codeflash-parallel.1"])
    done = subprocess.run(
        ["man", "--warnings", "-l", str(page)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == ""
    assert "--candidates PATH" in done.stdout
