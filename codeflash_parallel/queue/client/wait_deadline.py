"""The patience of those who wait for a job; apart from `futures`, for who hands one in does not wait."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: How long a waiting client waits for a daemon that went away to come back, in seconds.
PATIENCE_S: Final = 30.0
#: How often it looks whether it has, in seconds.
RETRY_S: Final = 0.2


@dataclass(slots=True)
class WaitDeadline:
    """How long a client waits for a job, and for a daemon that went away.

    Attributes:
        end: when its time is up, by the monotonic clock; infinite: never.
        seen: when the daemon was there last; negative: it never was.
    """

    end: float
    seen: float = -1.0

    def left_s(self, at: float) -> float:
        """Return for how long the daemon may let us wait; negative: however long it takes."""
        return max(0.0, self.end - at) if self.end != float("inf") else -1.0

    def pause_s(self, folder: Path, at: float) -> float:
        """Return for how long to pause before looking again.

        Raises:
            TimeoutError: the time is up.
            EnvironmentFault: `NO_DAEMON`: there was none, or it has been away for long.
        """
        if at >= self.end:
            raise TimeoutError("the job is not final yet")
        if self.seen < 0 or at - self.seen > PATIENCE_S:
            from codeflash_parallel.queue.client.daemon_connection import no_daemon

            raise no_daemon(folder)
        return min(RETRY_S, self.end - at)
