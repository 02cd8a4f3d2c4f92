"""A field that is started ahead belongs to whoever takes it, and is closed where nobody does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import anyio
import pytest

from codeflash_parallel.race.race_result import ArmFailure, RaceBudgetExceeded
from codeflash_parallel.race.worker.arm_pool import ArmPool, ArmPoolPrestart

pytestmark = pytest.mark.anyio


class Starting:
    """Starts a field in so many steps, or fails after them."""

    def __init__(self, steps: int = 1, error: Exception | None = None) -> None:
        self.steps, self.error = steps, error
        self.closed = 0

    async def __call__(self) -> ArmPool:
        for _ in range(self.steps):
            await anyio.lowlevel.checkpoint()
        if self.error is not None:
            raise self.error
        return cast("ArmPool", self)

    async def close(self) -> None:
        self.closed += 1


async def ended(start: Starting, then: Callable[[ArmPoolPrestart], Any]) -> Any:
    async with anyio.create_task_group() as tasks:
        found = await then(ArmPoolPrestart(tasks, start))
        if found is None:
            return None
        await anyio.lowlevel.checkpoint()
        return found, start.closed


async def test_it_is_the_taker_s() -> None:
    start = Starting()
    assert await ended(start, ArmPoolPrestart.take) == (start, 0)
    assert start.closed == 0


@pytest.mark.parametrize("error", [ArmFailure("is gone"), RaceBudgetExceeded()])
async def test_one_that_fails_is_started_anew_by_who_needs_it(error: Exception) -> None:
    assert await ended(Starting(error=error), ArmPoolPrestart.take) is None


async def test_what_is_dropped_is_closed() -> None:
    start = Starting()

    async def when_it_stands(ahead: ArmPoolPrestart) -> None:
        await anyio.wait_all_tasks_blocked()
        await ahead.drop()

    assert await ended(start, when_it_stands) is None
    assert start.closed == 1


async def test_what_is_dropped_before_it_stands_never_does() -> None:
    start = Starting(steps=1_000_000)
    assert await ended(start, ArmPoolPrestart.drop) is None
    assert start.closed == 0


async def test_it_is_closed_when_everything_ends() -> None:
    start = Starting()
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            ArmPoolPrestart(tasks, start)
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
    assert start.closed == 1
