from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import codeflash_parallel

pytest.importorskip("nox")  # which newer Pythons do not get

NOXFILE = """
import nox
from codeflash_parallel.hosts.nox import evaluate_session

@nox.session(venv_backend="none")
def bare(session):
    evaluate_session(session, "--help")

@nox.session(venv_backend="venv", venv_params=["--without-pip"])
def own(session):
    session.env["MARK"] = "passed on"
    evaluate_session(session, command="no-such-command", success_codes=[2])

@nox.session(venv_backend="none")
def wrong(session):
    evaluate_session(session, "--no-such-flag")
"""


def nox(tmp_path: Path, session: str, *posargs: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "noxfile.py").write_text(NOXFILE)
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(codeflash_parallel.__file__).parents[1]),
        "NO_COLOR": "1",
    }
    command = [sys.executable, "-m", "nox", "-s", session, "--", *posargs]
    return subprocess.run(
        command,
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def test_a_session_without_an_environment_names_no_interpreter(tmp_path):
    done = nox(tmp_path, "bare")
    assert done.returncode == 0, done.stdout
    assert "codeflash-parallel run --help" in done.stdout
    assert "--candidates" in done.stdout


def test_the_sessions_interpreter_and_posargs_are_handed_over(tmp_path):
    done = nox(tmp_path, "own", "--last", "word")
    assert done.returncode == 0, done.stdout
    python = tmp_path / ".nox" / "own" / "bin" / "python"
    assert f"codeflash-parallel no-such-command --python {python} --last word" in done.stdout


@pytest.mark.parametrize("posargs", [(), ("-q",)])
def test_a_failure_is_the_sessions_error(tmp_path, posargs):
    done = nox(tmp_path, "wrong", *posargs)
    assert done.returncode == 1
    assert "codeflash-parallel run ended with exit code 2: the command line is wrong." in done.stdout
