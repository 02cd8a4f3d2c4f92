"""The processes of the next layout, started while rounds of this one are held, on another core."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskGroup

from codeflash_parallel.race.worker.arm_pool import ArmPool


class ArmPoolPrestart:
    """A field that is being started, or stands; it is closed unless somebody takes it.

    Args:
        tasks: where it is started; leaving the group waits for its end.
        start: starts it, see `start_field`.
    """

    def __init__(self, tasks: TaskGroup, start: Callable[[], Awaitable[ArmPool]]) -> None:
        self._field: ArmPool | None = None
        self._scope, self._ready, self._over = anyio.CancelScope(), anyio.Event(), anyio.Event()
        tasks.start_soon(self._keep, start)

    async def _keep(self, start: Callable[[], Awaitable[ArmPool]]) -> None:
        try:
            with self._scope:
                self._field = await start()
                self._ready.set()
                await anyio.sleep_forever()
        except Exception:  # noqa: BLE001, S110 - whoever needs one starts it anew, and is told why that fails
            pass
        finally:
            self._ready.set()
            if self._field is not None:
                await self._field.close()
            self._over.set()

    async def take(self) -> ArmPool | None:
        """Return the field when it stands, to be closed by whoever calls this; `None` where it failed."""
        await self._ready.wait()
        field, self._field = self._field, None
        self._scope.cancel()
        return field

    async def drop(self) -> None:
        """End its processes."""
        self._scope.cancel()
        await self._over.wait()
