from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from codeflash_parallel.queue.daemon.dispatcher import Dispatcher
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

    def claim(self, _worker: str, _now: Any, *, kinds: Any, ending: int) -> None:
        assert kinds
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
