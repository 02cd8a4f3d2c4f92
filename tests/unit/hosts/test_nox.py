"""The command and the environment of an evaluation in a session of nox; a real nox is in integration."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from codeflash_parallel.hosts.nox import evaluate_session


class SessionError(Exception):
    pass


def session(*posargs, bin_paths=None, env=None):
    def fail(message):
        raise SessionError(message)

    told = []
    return SimpleNamespace(
        posargs=posargs, bin_paths=bin_paths, env=env or {}, log=told.append, error=fail, told=told
    )


@pytest.fixture(name="ran")
def _ran(monkeypatch):
    ran = []

    def run(argv, *, env, check):
        assert not check
        ran.append((argv, env))
        return subprocess.CompletedProcess(argv, ran[0] if isinstance(ran[0], int) else 0)

    monkeypatch.setattr(subprocess, "run", run)
    return ran


def test_the_sessions_interpreter_its_environment_and_what_the_user_adds_are_handed_over(ran):
    ran.append(0)
    asked = session("--json", bin_paths=["/venv/bin"], env={"MARK": "1", "GONE": None})

    assert evaluate_session(asked, "--candidates", "x") == 0
    argv, env = ran[1]
    python = ["--python", "/venv/bin/python"]
    assert argv == [sys.executable, "-m", "codeflash_parallel", "run", *python, "--candidates", "x", "--json"]
    assert env["MARK"] == "1"
    assert "GONE" not in env
    assert asked.told == ["codeflash-parallel run --python /venv/bin/python --candidates x --json"]


@pytest.mark.parametrize(("status", "words"), [(1, "measurably faster"), (-9, "killed"), (99, "unknown")])
def test_another_exit_code_than_expected_fails_the_session(ran, status, words):
    ran.append(status)
    with pytest.raises(SessionError, match=words):
        evaluate_session(session(), command="check")
    assert evaluate_session(session(), success_codes=[status]) == status
