"""`codeflash` finds, starts and ends a codeflash; what it does with candidates: `test_codeflash_races.py`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from projects import make_project
from serial_optimizer import install

from codeflash_parallel.cli.main import main


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project")


def start(project: Path, version: str, *arguments: str) -> subprocess.Popen[str]:
    """Start the command beside a small codeflash of a version."""
    site = str(install(project.parent / "site", version))
    path = os.pathsep.join(filter(None, (site, os.environ.get("PYTHONPATH"))))
    cache = str(project.parent / "cache")
    return subprocess.Popen(
        [sys.executable, "-m", "codeflash_parallel", "codeflash", *arguments],
        cwd=project,
        env={**os.environ, "PYTHONPATH": path, "CODEFLASH_PARALLEL_CACHE_DIR": cache},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def command(project: Path, version: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    with start(project, version, *arguments) as process:
        out, err = process.communicate(timeout=60)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def test_without_codeflash_the_way_to_install_it_is_said(project: Path, capsys, monkeypatch) -> None:
    try:
        pytest.skip(f"codeflash {version('codeflash')} is installed")
    except PackageNotFoundError:
        monkeypatch.chdir(project)
    assert main(["codeflash", "--", "--all"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: codeflash is not installed")
    assert "pip install 'codeflash-parallel[codeflash]'" in said


def test_its_arguments_come_after_two_dashes(project: Path) -> None:
    done = command(project, "0.20.9", "-j", "2", "--", "--all", "--json", "-j", "--", "x")
    assert done.stdout == "codeflash's arguments: ['--all', '--json', '-j', '--', 'x']\n"
    assert (done.returncode, done.stderr) == (5, "")


@pytest.mark.parametrize("words", [("--file", "x.py"), (), ("-j", "2", "--")])
def test_without_them_it_is_not_started(project: Path, words: tuple[str, ...]) -> None:
    done = command(project, "0.20.9", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: codeflash-parallel codeflash: ")


def test_another_version_is_run_as_it_is_and_that_is_said(project: Path) -> None:
    done = command(project, "0.21.0", "--", "--all")
    assert done.stdout == "codeflash's arguments: ['--all']\n"
    assert done.returncode == 5
    (line,) = done.stderr.splitlines()
    assert "evaluated by codeflash itself, one by one: version 0.21.0 is installed" in line


def test_json_has_the_standard_output_to_itself(project: Path) -> None:
    done = command(project, "0.21.0", "--json", "--", "--all")
    document = json.loads(done.stdout)
    assert document == {"replaced": False, "why": document["why"], "functions": [], "exit_code": 5}
    assert "0.21.0" in document["why"]
    assert "codeflash's arguments: ['--all']" in done.stderr


def test_bad_settings_are_said_before_it_is_started(project: Path) -> None:
    (project / "pyproject.toml").write_text("[tool.codeflash-parallel]\nconfidence = 2\n")
    done = command(project, "0.20.9", "--", "--all")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: confidence")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_codeflash_too(project: Path, number: signal.Signals, code: int) -> None:
    with start(project, "0.21.0", "--json", "--", "wait") as process:
        assert process.stderr is not None
        process.stderr.readline()  # another version
        child = int(process.stderr.readline())
        process.send_signal(number)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == code
    assert json.loads(out)["exit_code"] == code
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
