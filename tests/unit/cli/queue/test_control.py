"""`queue cancel`, `retry`, `pause` and `unpause`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from queue_cases import assert_valid

from codeflash_parallel.cli.main import main
from codeflash_parallel.queue.jobs import JobKind, JobRequest
from codeflash_parallel.queue.sync_client import EvalQueueClient


@pytest.fixture
def queue(tmp_path: Path) -> Path:
    """A queue with one job."""
    with EvalQueueClient(tmp_path / "q") as client:
        client.submit(JobRequest(kind=JobKind.CHECK, key="k", payload="{}", submitter="me"))
    return tmp_path / "q"


def told(capsys: pytest.CaptureFixture[str], status: int, *arguments: str) -> dict:
    assert main(["queue", *arguments, "--json"]) == status
    document = json.loads(capsys.readouterr().out)
    assert_valid(document)
    return document


def test_a_job_is_cancelled_and_only_a_dead_one_is_retried(queue: Path, capsys) -> None:
    place = ("--queue-dir", str(queue))
    (job,) = told(capsys, 0, "list", *place)["jobs"]
    slip = told(capsys, 2, "cancel", job["job_id"], "nobody", *place)
    assert slip["error"]["code"] == "UNKNOWN_JOB"
    assert told(capsys, 0, "list", *place)["jobs"][0]["state"] == "queued"
    assert told(capsys, 0, "cancel", job["job_id"], *place)["jobs"][0]["state"] == "cancelled"
    assert told(capsys, 2, "retry", job["job_id"], *place)["error"]["code"] == "NOT_DEAD"


def test_a_queue_is_paused_until_it_is_not(queue: Path, capsys) -> None:
    place = ("--queue-dir", str(queue))
    assert main(["queue", "pause", *place]) == 0
    assert "The queue is paused" in capsys.readouterr().out
    assert told(capsys, 0, "status", *place)["health"]["paused"] is True
    assert main(["queue", "unpause", *place]) == 0
    assert "No daemon is running" in capsys.readouterr().out
    assert told(capsys, 0, "status", *place)["health"]["paused"] is False
