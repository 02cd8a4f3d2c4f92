from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from codeflash_parallel.model.queue_settings import QueueSettings
from codeflash_parallel.service.dispatching import Dispatching
from codeflash_parallel.service.notices import Notices


class Desk:
    """A store that nobody can ask."""

    slots = 1

    async def do(self, _act: Any) -> Any:
        raise OSError("no store")


class Attended:
    """An attempt of a job; while it ends, the job is claimed again."""

    def __init__(self, dispatching: Dispatching, again: Attended | None = None) -> None:
        self.job = SimpleNamespace(job_id="1-a", suspect=False)
        self._running: dict[str, Any] = dispatching._running  # type: ignore[assignment]
        self._again = again

    async def run(self, _slots: int) -> None:
        if self._again is not None:
            self._running["1-a"] = self._again


@pytest.mark.anyio
async def test_a_job_that_is_claimed_again_while_its_last_attempt_ends_is_still_known() -> None:
    dispatching = Dispatching(Desk(), None, Notices(), None, QueueSettings(), 0.0)  # type: ignore[arg-type]
    second = Attended(dispatching)
    first = Attended(dispatching, again=second)
    running: dict[Any, Any] = dispatching._running
    running["1-a"] = first
    await dispatching._attend(first)  # type: ignore[arg-type]
    assert running == {"1-a": second}
    await dispatching._attend(second)  # type: ignore[arg-type]
    assert running == {}
