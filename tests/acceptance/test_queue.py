"""The evaluation queue as a user meets it, while no daemon is running."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from harness import Place, assert_nothing_left, assert_same, picture
from page_cases import assert_sound, text_in
from queue_support import TARGET, answer, job_of, submit, with_queue

from codeflash_parallel.queue.daemon_protocol import socket_of
from codeflash_parallel.queue.queue_settings import QueueSettings
from codeflash_parallel.queue.store.store import Store


@pytest.fixture
def place(build_once: Callable[[str], Place], tmp_path: Path) -> Place:
    """Give a repository that all tests share, and a queue of one's own."""
    return with_queue(build_once("import_error"), tmp_path / "cache")


def test_without_a_daemon_jobs_are_taken_looked_after_and_kept(place: Place) -> None:
    before = picture(place.repository)
    told = submit(place, "right", "--submitter", "ada")
    assert told.status == 0, str(told)
    job_id = told.stdout.decode().split()[1].rstrip(":")
    assert told.stdout.decode() == f"job {job_id}: queued, position 1: no daemon is running\n"
    assert f"codeflash-parallel queue wait {job_id} --max 100s" in told.errors

    again = answer(submit(place, "right", "--submitter", "bob", "--json"))
    assert again["daemon"] == "none"
    assert (again["jobs"][0]["job_id"], again["jobs"][0]["known"]) == (job_id, True)
    other = job_of(
        submit(place, "wrong", "--submitter", "bob", "--priority", "low", "--kind", "check", "--json")
    )
    assert other["place"]["position"] == 2
    assert (other["known"], other["kind"], other["priority"]) == (False, "check", "low")

    listed = answer(place.run("queue", "list", "--json"))["jobs"]
    assert [job["job_id"] for job in listed] == [job_id, other["job_id"]]
    mine = place.run("queue", "list", "--mine", "--json", CODEFLASH_PARALLEL_SUBMITTER="bob")
    assert job_of(mine)["job_id"] == other["job_id"]
    table = place.run("queue", "list", "--state", "queued", COLUMNS="160").stdout.decode()
    assert job_id in table
    assert "position 2: no daemon is running" in " ".join(table.split())

    refused = answer(place.run("queue", "wait", job_id, "--json"), 4)
    assert refused["error"]["code"] == "NO_DAEMON"
    waited = job_of(place.run("queue", "wait", job_id, "--max", "0.5s", "--json"), 6)
    assert waited["place"]["reason"] == "NO_DAEMON"
    assert job_of(place.run("queue", "result", job_id, "--json"), 6)["state"] == "queued"

    slip = answer(place.run("queue", "cancel", other["job_id"], "nobody", "--json"), 2)
    assert slip["error"]["code"] == "UNKNOWN_JOB"
    assert job_of(place.run("queue", "result", other["job_id"], "--json"), 6)["state"] == "queued"
    assert job_of(place.run("queue", "cancel", other["job_id"], "--json"))["state"] == "cancelled"
    assert place.run("queue", "result", other["job_id"]).status == 4
    health = answer(place.run("queue", "status", "--json"))["health"]
    assert (health["depth"], health["running"], health["daemon"]) == (1, 0, None)
    assert_same(before, picture(place.repository))
    assert_nothing_left(place)


@pytest.mark.witness
def test_a_queue_that_was_damaged_is_not_taken_for_an_empty_one(place: Place) -> None:
    queue = place.cache / "queue"
    assert answer(place.run("queue", "status", "--json"), 2)["error"]["code"] == "NO_QUEUE"
    assert not queue.exists()
    submit(place, "right", "--json")
    (queue / "queue.sqlite3").write_bytes(b"no database" * 1000)

    told = answer(place.run("queue", "list", "--json"), 4)["error"]
    assert told["code"] == "QUEUE_DAMAGED"
    assert str(queue / "queue.sqlite3") in told["message"]


@pytest.mark.campaign
def test_a_command_notices_within_5_s_that_a_daemon_is_stalled(place: Place) -> None:
    make_queue(place)
    with socket.socket(socket.AF_UNIX) as silent, socket_of(place.cache / "queue") as address:
        silent.bind(address)
        silent.listen()
        begun = time.monotonic()
        told = place.run("queue", "status", "--json")
        assert time.monotonic() - begun < 5.0
    assert answer(told, 4)["error"]["code"] == "DAEMON_STALLED"


def test_a_paused_queue_says_so_until_it_is_not(place: Place) -> None:
    submit(place, "right")
    assert "paused" in place.run("queue", "pause").stdout.decode()
    assert answer(place.run("queue", "status", "--json"))["health"]["paused"] is True
    assert "unpause" in place.run("queue", "status").stdout.decode()
    page = text_in(assert_sound(place.run("queue", "report").stdout.decode()))
    for words in ("Waiting: 1.", "no daemon is running (1)"):
        assert words in page
    assert place.run("queue", "unpause").status == 0
    assert answer(place.run("queue", "status", "--json"))["health"]["paused"] is False
    text = place.run("queue", "metrics").stdout.decode()
    assert re.search(r"^# TYPE codeflash_parallel_queue_\w+ \w+$", text, flags=re.MULTILINE), text
    assert answer(place.run("queue", "dead", "--json"))["jobs"] == []
    assert place.run("queue", "dead").stdout.decode() == "No job is dead.\n"


#: Ten mistakes: arguments, exit code, code of the error.
MISTAKES = {
    "no candidates": (("queue", "submit", *TARGET), 2, "NO_CANDIDATES"),
    "unknown kind": (("queue", "submit", "--kind", "fly"), 2, "BAD_ARGUMENTS"),
    "kind without its command": (("queue", "submit", "--candidates", "{right}", "--kind", "command"), 2, "BAD_ARGUMENTS"),
    "a file that is not there": (("queue", "submit", "--candidates", "no/such.patch"), 2, "BAD_CANDIDATES"),
    "no repository": (("queue", "submit", "--candidates", "{right}", "--project", "{state}"), 2, "NOT_A_REPOSITORY"),
    "a project that is not there": (("queue", "list", "--project", "{state}/none"), 2, "NO_PROJECT"),
    "a function that is not there": (("queue", "submit", "--candidates", "{right}", "--function", "words.py::shut"), 2, "NO_SUCH_FUNCTION"),
    "a base that is not there": (("queue", "submit", "--candidates", "{right}", *TARGET, "--base", "none"), 2, "BAD_BASE"),
    "a bad span": (("queue", "wait", "x", "--max", "soon"), 2, "BAD_ARGUMENTS"),
    "unknown job": (("queue", "wait", "nobody", "--max", "1s"), 2, "UNKNOWN_JOB"),
    "nothing to cancel": (("queue", "cancel", "nobody"), 2, "UNKNOWN_JOB"),
    "retry of a job that is unknown": (("queue", "retry", "\x1b[2J"), 2, "UNKNOWN_JOB"),
    "a queue that is not there": (("queue", "list", "--queue-dir", "{state}/none"), 2, "NO_QUEUE"),
    "a queue that is a file": (("queue", "list", "--queue-dir", "{right}"), 4, "QUEUE_UNFIT"),
    "a ref that is not there": (("queue", "submit", "--candidate", "none"), 2, "DOES_NOT_APPLY"),
    "a submitter that is no name": (("queue", "list", "--submitter", "a\nb"), 2, "BAD_ARGUMENTS"),
}  # fmt: skip


@pytest.mark.witness
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_as_a_document(place: Place, name: str) -> None:
    arguments, status, code = MISTAKES[name]
    make_queue(place)
    told = place.run(*given(place, arguments), "--json")
    error = answer(told, status)["error"]
    assert error["message"]
    assert error["code"] == code
    assert told.errors == ""


def make_queue(place: Place) -> None:
    with Store.open(place.cache / "queue", QueueSettings()):
        pass


def given(place: Place, arguments: Sequence[str]) -> list[str]:
    return [a.format(right=place.state / "right.py", state=place.state) for a in arguments]


@pytest.mark.parametrize("name", ["unknown kind", "retry of a job that is unknown"])
def test_a_mistake_is_told_in_one_line(place: Place, name: str) -> None:
    arguments, status, _ = MISTAKES[name]
    make_queue(place)
    told = place.run(*given(place, arguments))
    assert (told.status, told.stdout) == (status, b"")
    message, hint = told.errors.splitlines()
    assert message.startswith("error: ")
    assert hint.startswith("  ")
    assert "\x1b" not in told.errors


@pytest.mark.witness
def test_a_full_queue_refuses_with_its_figure(place: Place) -> None:
    full = replace(place, environment={**place.environment, "CODEFLASH_PARALLEL_QUEUE_MAX_QUEUE_SIZE": "1"})
    assert submit(full, "right").status == 0
    error = answer(submit(full, "wrong", "--json"), 2)["error"]
    assert (error["code"], error["limit"]) == ("QUEUE_FULL", 1)
    told = submit(full, "wrong")
    assert (told.status, told.stdout) == (2, b"")
    assert told.errors.splitlines()[0] == f"error: {error['message']}"


@pytest.mark.witness
def test_a_spent_budget_refuses_with_its_figure(place: Place) -> None:
    mine = ("--run-of", "night", "--budget-jobs", "1")
    assert submit(place, "right", *mine).status == 0
    error = answer(submit(place, "wrong", *mine, "--json"), 2)["error"]
    assert (error["code"], error["figure"], error["limit"]) == ("BUDGET_SPENT", "jobs", 1)
