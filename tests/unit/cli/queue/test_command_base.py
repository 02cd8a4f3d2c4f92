"""What the commands of the queue have in common: who asks, spans, refusals, exit codes."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

import pytest
from queue_cases import assert_valid

from codeflash_parallel.cli import serve
from codeflash_parallel.cli.main import COMMANDS, LEAVES, QUEUE_COMMANDS, main
from codeflash_parallel.cli.queue.command_base import figures_of, name_of, positive, span
from codeflash_parallel.config.environment import QUIET_VARIABLE
from codeflash_parallel.config.settings import Settings, settings_document, settings_of
from codeflash_parallel.config.settings_reader import RUN_OF, SUBMITTER, run_of, submitter_of
from codeflash_parallel.process import host_lock
from codeflash_parallel.queue.daemon_protocol import DaemonInfo
from codeflash_parallel.queue.queue_errors import BudgetSpent, QueueFull, RateLimited, UnknownJob
from codeflash_parallel.report.queue.queue_document import refusal_document
from codeflash_parallel.result.errors import UsageError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("100", 100),
        ("100s", 100),
        ("2m", 120),
        ("2min", 120),
        ("1.5h", 5400),
        ("0", 0),
        ("0.5s", 0.5),
        ("1 h", 3600),
        ("1d", 86_400),
    ],
)
def test_spans_are_read_as_people_write_them(text: str, seconds: float) -> None:
    assert span(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "s", "ten", "-1", "1w", "nan", "inf", "1e400", "1e30", "1e9h", "2hm", "h1"]
)
def test_what_is_no_span_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="a span like 100s"):
        span(text)


@pytest.mark.parametrize("text", ["0", "-3", "x", "1.5", ""])
def test_what_is_no_number_of_rows_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="at least 1"):
        positive(text)


def test_more_rows_than_a_queue_can_have_are_all() -> None:
    assert positive("9" * 30) == sys.maxsize


@pytest.mark.parametrize("text", ["a\nb", "\x1b[2J", "x" * 65])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="1 to 64 printable"):
        name_of(text)


def test_the_option_comes_before_the_variable_and_that_before_the_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    environment = {SUBMITTER: "agent 7", RUN_OF: "night"}
    assert submitter_of("ada", environment) == "ada"
    assert submitter_of("", environment) == "agent 7"
    assert run_of("day", environment) == "day"
    assert (run_of("", environment), run_of("", {})) == ("night", "")
    monkeypatch.setattr("pwd.getpwuid", lambda _uid: argparse.Namespace(pw_name="ada"))
    monkeypatch.setattr(os, "ttyname", lambda _number: "/dev/pts/3")
    assert submitter_of("", {SUBMITTER: ""}) == "ada"  # wherever its streams go
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    assert submitter_of("", {}) == f"uid{os.getuid()}"


def test_a_bad_name_in_a_variable_says_which() -> None:
    with pytest.raises(UsageError, match=rf"{SUBMITTER} must be 1 to 64"):
        submitter_of("", {SUBMITTER: "a\tb"})


@pytest.mark.parametrize(
    ("refusal", "figures"),
    [
        (RateLimited(submitter="ada", retry_after_s=2.5), {"submitter": "ada", "retry_after_s": 2.5}),
        (QueueFull(limit=3), {"limit": 3}),
        (BudgetSpent(run="night", figure="cpu_s", spent=61.0, limit=60.0), {"run": "night", "figure": "cpu_s", "spent": 61.0, "limit": 60.0}),
        (UnknownJob(job_id="x"), {"job_id": "x"}),
    ],
    ids=lambda value: getattr(value, "code", ""),
)  # fmt: skip
def test_a_refusal_is_told_with_its_figures(refusal, figures: dict[str, object]) -> None:
    assert figures_of(refusal) == figures
    told = refusal_document(refusal, figures_of(refusal))
    assert_valid(told)
    assert told["error"].items() >= figures.items()


def test_the_commands_of_the_queue_are_found_by_two_words(capsys) -> None:
    assert main(["queue"]) == 2
    assert "queue submit" in capsys.readouterr().err
    assert main(["queue", "--help"]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in QUEUE_COMMANDS)
    assert main(["queue", "submitt"]) == 2
    assert "Did you mean 'queue submit'?" in capsys.readouterr().err
    assert "queue" in COMMANDS
    assert "queue" not in LEAVES


@pytest.mark.parametrize("name", [*QUEUE_COMMANDS, "serve"])
def test_every_command_says_what_it_takes(name: str, capsys) -> None:
    assert main([*name.split(), "--help"]) == 0
    assert name in capsys.readouterr().out
    assert main([*name.split(), "--json", "--no-such-option"]) == 2
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    told = json.loads(said.out)
    assert told["error"]["code"] == "BAD_ARGUMENTS"
    if name not in {"serve", "queue result"}:
        assert_valid(told)


@pytest.mark.parametrize("command", ["queue list", "queue result j"])
def test_two_forms_of_the_answer_contradict_each_other(command: str, capsys) -> None:
    assert main([*command.split(), "--json", "--output-format", "text"]) == 2

    message = json.loads(capsys.readouterr().out)["error"]["message"]
    assert message.endswith("argument --output-format: not allowed with argument --json.")


def test_who_does_a_job_does_not_hand_it_on() -> None:
    """A worker that asked the queue would wait for itself."""
    handed_in = settings_document(Settings(executor="queue", queue_dir="q", seed=3))
    assert settings_of(handed_in) == Settings(seed=3)


@pytest.mark.parametrize("folder", ["there", "missing"])
def test_serve_says_once_that_there_is_no_quiet(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    """As on a host without /dev/shm; where a variable names the folder, serving is refused."""
    (tmp_path / "there").mkdir()
    monkeypatch.delenv(QUIET_VARIABLE, raising=False)
    monkeypatch.setattr(host_lock, "_HOST_FOLDER", tmp_path / folder)

    serve._say_ready(tmp_path, DaemonInfo(pid=1, version="0", slots=2, slots_busy=0))

    first, *more = capsys.readouterr().err.splitlines()
    assert first.startswith(f"Serving {tmp_path}, 2 jobs at once.")
    missing = (
        f"There is no quiet here, no locks can be made in {tmp_path / 'missing'}: No such file or directory: "
    )
    assert more == (
        [f"{missing}others' checks and races run beside what is timed."] if folder == "missing" else []
    )
