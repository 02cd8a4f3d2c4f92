from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from queue_cases import JOB, done

from codeflash_parallel.queue.daemon import dispatcher as dispatcher_module
from codeflash_parallel.queue.daemon.dispatcher import Dispatcher, Publication
from codeflash_parallel.queue.daemon.worker_pool import WorkerPool
from codeflash_parallel.queue.jobs import JobState
from codeflash_parallel.queue.queue_settings import QueueSettings


class Desk:
    """A store that nobody can ask."""

    slots = 1

    async def do(self, _act: Any) -> Any:
        raise OSError("no store")


class Attended:
    """An attempt of a job; while it ends, the job is claimed again."""

    def __init__(self, dispatching: Dispatcher, again: Attended | None = None) -> None:
        self.job = SimpleNamespace(job_id="1-a", suspect=False)
        self._running: dict[str, Any] = dispatching._running  # type: ignore[assignment]
        self._again = again

    async def run(self, _slots: int) -> None:
        if self._again is not None:
            self._running["1-a"] = self._again


@pytest.mark.anyio
async def test_a_job_that_is_claimed_again_while_its_last_attempt_ends_is_still_known() -> None:
    dispatching = Dispatcher(Desk(), None, None, QueueSettings(), Path(), 0.0)  # type: ignore[arg-type]
    second = Attended(dispatching)
    first = Attended(dispatching, again=second)
    running: dict[Any, Any] = dispatching._running
    running["1-a"] = first
    await dispatching._attend(first)  # type: ignore[arg-type]
    assert running == {"1-a": second}
    await dispatching._attend(second)  # type: ignore[arg-type]
    assert running == {}


class Claims:
    """A store of which nothing starts; it notes what it is told."""

    def __init__(self) -> None:
        self.ending: list[int] = []
        self.sweeps = 0

    def sweep(self, _now: Any) -> int:
        self.sweeps += 1
        return 0

    def claim(self, _worker: str, _now: Any, *, ending: int) -> None:
        self.ending.append(ending)

    def next_change(self, _now: Any) -> None:
        return None


class AskedDesk:
    slots = 3

    def __init__(self, store: Claims) -> None:
        self._store = store

    async def do(self, act: Any) -> Any:
        return act(self._store, None)


@pytest.mark.anyio
async def test_the_store_is_told_of_jobs_whose_processes_may_not_be_gone() -> None:
    store = Claims()
    dispatching = Dispatcher(AskedDesk(store), None, None, QueueSettings(), Path(), 0.0)  # type: ignore[arg-type]
    running: dict[Any, Any] = dispatching._running
    for number in range(2):  # cancelled, as the store sees it, and still being killed
        running[f"{number}-a"] = Attended(dispatching)
        await dispatching._fill(None)  # type: ignore[arg-type]
    assert store.ending == [1, 2]
    running["1-a"].job.suspect = True
    await dispatching._fill(None)  # type: ignore[arg-type]
    assert store.ending == [1, 2]
    assert store.sweeps == 3  # also where there is no room: time goes on


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
    monkeypatch.setattr(dispatcher_module, "_COMMAND_S", 0.2 if command[0] == "sleep" else 30.0)
    said = await published(tmp_path, *command).run_command(DONE)
    assert said.startswith(f"The command of --on-end {wrong}")
    assert said in (tmp_path / "on-end.log").read_text()


@pytest.mark.anyio
async def test_without_a_command_nothing_is_run(tmp_path: Path) -> None:
    assert await published(tmp_path).run_command(DONE) == ""
    assert not (tmp_path / "on-end.log").exists()
