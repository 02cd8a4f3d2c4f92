"""`doctor --race`: what is told of this machine, what is left, and how it is ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import anyio
import pytest
from harness import processes_of

from codeflash_parallel.cli.doctor_race import PREFIX, check_race
from codeflash_parallel.cli.output import Output
from codeflash_parallel.config.settings import Settings
from codeflash_parallel.process.host_lock import host_quiet
from codeflash_parallel.result.errors import EnvironmentFault

pytestmark = [pytest.mark.engine]


def left_in(cache):
    return [path.name for path in cache.iterdir() if not path.name.startswith("runner-")]


def doctor(repository, cache, *arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "codeflash_parallel", "doctor", "--race", "--cache-dir", str(cache), *arguments],
        cwd=repository, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.fixture
def repository(tmp_path):
    root = tmp_path / "repository"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    subprocess.run(["git", "init", "--quiet", str(root)], check=True, env=environment)
    return root


@pytest.mark.witness
def test_identical_code_is_raced_by_the_users_rules_and_nothing_is_left(repository, tmp_path):
    cache = tmp_path / "cache"
    (cache / f"{PREFIX}of-somebody-killed" / "private").mkdir(parents=True)
    asked = ("--python", sys.executable, "--min-speedup", "0.03", "--time-budget", "40")

    with doctor(repository, cache, *asked, "--output-format", "json") as done:
        document = json.loads(done.stdout.read())

    assert done.returncode == 0
    (told,) = document["race"]
    assert told["rounds"] > told["void"] >= 0
    assert told["seconds"] > 0
    assert told["budget_s"] == 40
    assert told["unit_sd"] > 0
    assert told["called_faster"] == []
    five, ten = told["needed"]  # 2 % is not claimed
    assert (five["gain"], ten["gain"]) == (0.05, 0.1)
    assert five["seconds"] >= ten["seconds"] > 0
    assert left_in(cache) == []
    assert processes_of(str(cache)) == []


def test_an_interpreter_that_cannot_run_the_arms_is_said(tmp_path, default_signals):
    nothing = tmp_path / "python"
    nothing.write_text("#!/bin/sh\necho no such thing >&2\nexit 1\n")
    nothing.chmod(0o755)
    (tmp_path / "cache").mkdir()

    with pytest.raises(EnvironmentFault, match=r"The race cannot be tried here: .*no such thing"):
        check_race(Settings(), nothing, tmp_path / "cache", Output())
    assert left_in(tmp_path / "cache") == []


@pytest.fixture
def default_signals():
    """Give this process its signals back: the command ignores them when it has come to its end."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.witness
@pytest.mark.parametrize(
    ("number", "status", "said"),
    [(signal.SIGINT, 130, "error: Interrupted.\n"), (signal.SIGTERM, 143, "error: Interrupted.\n")],
)
def test_a_signal_leaves_nothing(repository, tmp_path, number, status, said):
    cache = tmp_path / "cache"
    with doctor(repository, cache, "--python", sys.executable) as started:
        for line in started.stderr:
            if "is raced" in line:
                break
        started.send_signal(number)
        rest = started.stderr.read()
        started.wait()

    assert started.returncode == status
    assert rest == said
    assert left_in(cache) == []
    assert processes_of(str(cache)) == []


def test_others_checks_are_waited_for(repository, tmp_path, monkeypatch):
    monkeypatch.setenv("CODEFLASH_PARALLEL_QUIET_DIR", str(tmp_path / "quiet"))
    (tmp_path / "quiet").mkdir()

    async def begin_while_a_check_runs():
        async with host_quiet(os.environ).shared():
            with doctor(repository, tmp_path / "cache", "--python", sys.executable) as started:
                said = ""
                while "checks" not in said:
                    said = started.stderr.readline()
                    assert said
                    assert "is raced" not in said
                started.send_signal(signal.SIGINT)
        assert started.returncode == 130

    anyio.run(begin_while_a_check_runs)
    assert left_in(tmp_path / "cache") == []


def test_what_is_to_be_done_first_comes_first(repository, tmp_path):
    with doctor(repository, tmp_path / "cache", "--python", "/bin/false", "--output-format", "json") as done:
        document = json.loads(done.stdout.read())

    assert done.returncode == 4
    assert document["race"] == []
    assert "not tried" in {finding["name"]: finding["value"] for finding in document["findings"]}["race"]
