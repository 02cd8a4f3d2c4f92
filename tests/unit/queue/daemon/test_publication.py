"""Files of ended jobs, and the command that is run for them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from queue_cases import JOB, done

from codeflash_parallel.queue.daemon import publication
from codeflash_parallel.queue.daemon.publication import Publication
from codeflash_parallel.queue.daemon.worker_pool import WorkerPool
from codeflash_parallel.queue.jobs import JobState

DONE = done({"document": {"verdict": "winner"}})


def published(folder: Path, *command: str) -> Publication:
    return Publication(folder, WorkerPool(folder, folder, 1), command)


def test_a_file_is_there_while_its_job_is_final(tmp_path: Path) -> None:
    files = published(tmp_path)
    path = tmp_path / "results" / f"{DONE.job_id}.json"
    assert files.is_out_of_date(DONE)
    files.write(DONE)
    assert json.loads(path.read_text())["result"] == {"document": {"verdict": "winner"}}
    assert not files.is_out_of_date(DONE)
    assert files.is_out_of_date(JOB)  # it was retried
    files.write(JOB)
    assert not path.exists()


@pytest.mark.anyio
async def test_the_command_is_told_job_and_verdict_and_its_output_is_kept(tmp_path: Path) -> None:
    files = published(tmp_path, "sh", "-c", 'echo "$CODEFLASH_PARALLEL_JOB: $CODEFLASH_PARALLEL_VERDICT"')
    assert await files.run_command(DONE) == ""
    assert await files.run_command(JOB._replace(state=JobState.CANCELLED)) == ""
    assert await files.run_command(JOB) == ""  # it has not ended
    assert (tmp_path / "on-end.log").read_text() == "4f1c: winner\n4f1c: cancelled\n"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("command", "wrong"),
    [
        (("sh", "-c", "exit 3"), "ended with status 3"),
        (("no-such-program",), "cannot be started"),
        (("sleep", "60"), "has not ended within 0.2 s"),
    ],
)
async def test_a_command_that_fails_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], wrong: str
) -> None:
    monkeypatch.setattr(publication, "_COMMAND_S", 0.2 if command[0] == "sleep" else 30.0)
    said = await published(tmp_path, *command).run_command(DONE)
    assert said.startswith(f"The command of --on-end {wrong}")
    assert said in (tmp_path / "on-end.log").read_text()


@pytest.mark.anyio
async def test_without_a_command_nothing_is_run(tmp_path: Path) -> None:
    assert await published(tmp_path).run_command(DONE) == ""
    assert not (tmp_path / "on-end.log").exists()
