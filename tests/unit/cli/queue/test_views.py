"""Pictures of the queue: once, and kept up to date."""

from __future__ import annotations

import argparse
import json
import os
import signal
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from queue_cases import DAEMON, HEALTH, JOB, NOWHERE, assert_valid, view

from codeflash_parallel.cli.output import Format, Output
from codeflash_parallel.cli.queue import views
from codeflash_parallel.cli.queue.views import _QueueView, _show
from codeflash_parallel.queue.jobs import Job, JobState, QueuePlace, WaitReason

SECOND = QueuePlace(position=2, reason=WaitReason.TURN, wait_s=9.0)
RUNNING = JOB._replace(state=JobState.RUNNING)
CANCELLED = JOB._replace(state=JobState.CANCELLED)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "PAUSE_S", 0.0)


def looks(*jobs: Job | Callable[[], Job]) -> Callable[[], _QueueView]:
    """Return a function that shows these jobs, one after the other."""
    pictures: Iterator[Job | Callable[[], Job]] = iter(jobs)

    def look() -> _QueueView:
        found = next(pictures)
        job = found() if callable(found) else found
        return _QueueView(views=[view(job, SECOND if job.state == JobState.QUEUED else NOWHERE)])

    return look


def shown(look: Callable[[], _QueueView], form: Format, *jobs: str, watch: bool, daemon: Any = None) -> None:
    args = argparse.Namespace(watch=watch, jobs=list(jobs))
    _show(args, Output(form), SimpleNamespace(daemon=daemon), look)  # type: ignore[arg-type]


def test_a_picture_for_programs(capsys) -> None:
    shown(looks(JOB), Format.JSON, watch=False)
    told = json.loads(capsys.readouterr().out)
    assert_valid(told)
    assert (told["daemon"], told["health"], told["jobs"][0]["place"]["position"]) == ("none", None, 2)


def test_a_picture_of_the_whole_queue(capsys) -> None:
    picture = _QueueView(views=[view(RUNNING)], health=HEALTH)
    shown(lambda: picture, Format.TEXT, watch=False, daemon=DAEMON)
    text = capsys.readouterr().out
    assert "1 of 4 busy" in text
    assert "4f1c" in text
    shown(lambda: picture, Format.JSON, watch=False, daemon=DAEMON)
    told = json.loads(capsys.readouterr().out)
    assert_valid(told)
    assert (told["daemon"], told["health"]["utilisation"]) == ("running", 0.25)


def test_watching_says_what_changes_and_ends_with_the_jobs(capsys) -> None:
    shown(looks(JOB, JOB, RUNNING, RUNNING, CANCELLED), Format.JSON, JOB.job_id, watch=True)
    lines = capsys.readouterr().out.splitlines()
    told = [json.loads(line) for line in lines]
    for document in told:
        assert_valid(document)
    assert [document["jobs"][0]["state"] for document in told] == ["queued", "running", "cancelled"]


def test_watching_all_jobs_goes_on_until_a_signal(capsys) -> None:
    def interrupted() -> Job:
        os.kill(os.getpid(), signal.SIGINT)
        return CANCELLED

    shown(looks(CANCELLED, CANCELLED, JOB, interrupted, CANCELLED), Format.JSONL, watch=True)
    told = [json.loads(line)["jobs"][0]["state"] for line in capsys.readouterr().out.splitlines()]
    assert told == ["cancelled", "queued"]


def test_on_a_terminal_a_picture_is_redrawn(capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    shown(looks(JOB, RUNNING, CANCELLED), Format.TEXT, JOB.job_id, watch=True)
    assert "cancelled" in capsys.readouterr().out
