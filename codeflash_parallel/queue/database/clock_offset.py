"""The queue's own clock, in milliseconds. Pure.

It is the machine's clock since its start, which nobody can step, moved by an offset that is chosen anew after
each start of the machine: then, and only then, the wall clock says how long the machine was off.
"""

from __future__ import annotations

from typing import NamedTuple

from codeflash_parallel.queue.jobs import Instant

#: The wall clock is written down so often: what it was before a start of the machine is known as exactly.
REFRESH_MS = 60_000


class QueueClock(NamedTuple):
    """How the queue's clock follows from the machine's.

    Attributes:
        boot_id: of the start of the machine for which the offset holds; empty before the first.
        offset_ms: queue's clock less the machine's.
        seen_ms: the queue's clock when it was last written down.
        seen_wall_ms: the clock on the wall then.
    """

    boot_id: str
    offset_ms: int
    seen_ms: int
    seen_wall_ms: int

    def at(self, now: Instant) -> int:
        """Return what the queue's clock shows."""
        return self.following(now).offset_ms + _ms(now.boot_s)

    def following(self, now: Instant) -> QueueClock:
        """Return this clock, with an offset for the present start of the machine."""
        if self.boot_id == now.boot_id:
            return self
        off_ms = max(0, _ms(now.wall_s) - self.seen_wall_ms) if self.boot_id else 0
        offset_ms = self.seen_ms + off_ms - _ms(now.boot_s)
        return self._replace(boot_id=now.boot_id, offset_ms=offset_ms)

    def seen(self, now: Instant) -> QueueClock:
        """Return this clock, with both times written down."""
        clock = self.following(now)
        return clock._replace(seen_ms=clock.at(now), seen_wall_ms=_ms(now.wall_s))

    def is_stale(self, now: Instant) -> bool:
        """Say whether the times have to be written down again."""
        return self.boot_id != now.boot_id or self.at(now) - self.seen_ms > REFRESH_MS


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
