"""One child and its descendants, as the launcher follows them.

    RUNNING --main process exits--> SETTLING --nobody left--------------> DONE
       |                               | somebody left after the grace
       | limit reached, or told to     v (they are named as leaked)
       +---------------------------> KILLING --nobody left, or 2 s-------> DONE

The supervisor calls `main_exited` and `step`; nothing here blocks or waits.
"""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from codeflash_parallel.process import process_table
from codeflash_parallel.process.message_frames import Message
from codeflash_parallel.process.process_table import ProcessEntry
from codeflash_parallel.process.supervisor.process_tree_killer import INIT, living, strike

#: How long helpers of the main process (resource trackers) have to go by themselves.
GRACE_S = 0.3
#: How long a tree is being killed before its survivors are reported as unkillable.
KILL_S = 2.0
#: Looks at usage: no more often than this (a limit is overrun by at most that long) …
SHORTEST_LOOK_S = 0.05
#: … and no less often, so that a marker lost on the way is noticed while the family still hangs together.
LONGEST_LOOK_S = 0.5
#: Steps while waiting for processes to go; a signal for each orphan that ends wakes us earlier.
_WAIT_S = 0.02
#: How old the count of what the kernel killed may be when a job begins: reading it takes 0.2 ms.
OOM_AGE_S = 1.0
#: Names reported at most.
_NAMES = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessTableView:
    """What a job sees of the process table, zombies included.

    Attributes:
        recent: its processes, cheap and a little old.
        fresh: its processes as they are now.
        foreign: process groups of the launcher and of other jobs.
        oom_kills: how many processes the kernel has killed for want of memory; given how old that may be, in
            seconds.
    """

    recent: Callable[[], list[ProcessEntry]]
    fresh: Callable[[], list[ProcessEntry]]
    foreign: Callable[[], set[int]]
    oom_kills: Callable[[float], int]


class JobPhase(StrEnum):
    """Where a job stands."""

    RUNNING = "running"
    SETTLING = "settling"
    KILLING = "killing"
    DONE = "done"


class SupervisedJob:
    """Follow one job to its end.

    Args:
        request: the evaluator's ``start`` or ``adopt`` message.
        pid: the main process; it leads its own session, an adopted one does from its first step on.
        errors: descriptor on which a failure to start is told; `None` for one that has been adopted.
        looks: how to see the job's processes.
    """

    def __init__(self, request: Message, pid: int, errors: int | None, looks: ProcessTableView) -> None:
        self.number: int = request["job"]
        self.marker: str = request["marker"]
        self.tag: int = request["tag"]
        self.pid = pid
        self.phase = JobPhase.RUNNING
        #: Start times of the members seen so far, by pid: an orphan stays a member whatever it changes.
        self.known: dict[int, int] = {}
        self.next_look_s = 0.0
        self.orphans_cpu_s = 0.0
        self._errors = errors
        self._looks = looks
        self._cpu_s: float = request["cpu_s"]
        self._memory_bytes: int = request["memory_bytes"]
        self._limit_bytes = self._memory_bytes
        self._oom_kills = looks.oom_kills(OOM_AGE_S)
        self._started_ns = time.monotonic_ns()
        self._wall_at = time.monotonic() + request["wall_s"]
        self._phase_ends = 0.0
        self._used_s = 0.0
        self._ended = "exited"
        self._message = ""
        self._main: Message | None = None
        self._leaked: tuple[str, ...] = ()
        self._unkillable: tuple[str, ...] = ()
        self._plan_look(time.monotonic(), 0.0)

    def main_exited(self, status: int, usage: resource.struct_rusage) -> None:
        """Take the main process's status from `wait4`."""
        code = os.waitstatus_to_exitcode(status)
        self._main = {
            "status": code,
            "cpu_ns": int((usage.ru_utime + usage.ru_stime) * 1e9),
            "wall_ns": time.monotonic_ns() - self._started_ns,
            "max_rss_bytes": usage.ru_maxrss * 1024,
        }
        if self.phase is JobPhase.RUNNING or (self._ended == "killed" and code != -signal.SIGKILL):
            self._ended, self._message = self._own_end(code, self._main["max_rss_bytes"])
        if self.phase is JobPhase.RUNNING:
            self._settle()
        self.next_look_s = 0.0
        self._read_errors()

    def _own_end(self, code: int, max_rss_bytes: int) -> tuple[str, str]:
        """Return how a process ended that we did not kill, and a message about it."""
        if code != -signal.SIGKILL:
            return "signalled" if code < 0 else "exited", ""
        if self._limit_bytes and max_rss_bytes > self._limit_bytes:  # the kernel was faster than our looks
            return "memory_limit", f"{max_rss_bytes >> 20} MiB resident, limit {self._limit_bytes >> 20} MiB"
        return ("oom_killed" if self._looks.oom_kills(0.0) > self._oom_kills else "signalled"), ""

    def orphan_ended(self) -> None:
        """Note that somebody's orphan has been reaped: the end may be near."""
        if self.phase is not JobPhase.RUNNING:
            self.next_look_s = 0.0

    def kill(self, ended: str, message: str) -> None:
        """Begin to kill the tree; without effect on a job whose main process has ended by itself."""
        if self.phase is JobPhase.RUNNING:
            self._ended, self._message = ended, message
            self._begin_kill()

    def rest(self) -> None:
        """Look at the use of processes no more; only the wall limit is left."""
        self._cpu_s, self._memory_bytes = 0.0, 0
        if self.phase is JobPhase.RUNNING:
            self._plan_look(time.monotonic(), 0.0)

    def step(self) -> None:
        """Do what is due now, and set `next_look_s`."""
        now = time.monotonic()
        match self.phase:
            case JobPhase.RUNNING:
                self._watch(now)
            case JobPhase.SETTLING:
                self._check_survivors(now)
            case JobPhase.KILLING:
                self._check_killed(now)
            case JobPhase.DONE:
                pass

    def report(self) -> Message:
        """Return the ``ended`` message."""
        main = self._main or {"status": -int(signal.SIGKILL), "cpu_ns": 0, "max_rss_bytes": 0}
        wall_ns = time.monotonic_ns() - self._started_ns
        return {
            "t": "ended",
            "job": self.number,
            "ended": self._ended,
            "wall_ns": wall_ns,
            **main,
            "cpu_ns": max(main["cpu_ns"], int(self._used_s * 1e9)),
            "leaked": self._leaked,
            "unkillable": self._unkillable,
            "message": self._message,
        }

    def _read_errors(self) -> None:
        if self._errors is None:
            return
        try:
            reason = os.read(self._errors, 4096)
        except BlockingIOError:
            reason = b""
        os.close(self._errors)
        if reason:
            self._ended, self._message = "not_started", reason.decode("utf-8", "replace")

    def _settle(self) -> None:
        self.phase = JobPhase.SETTLING
        self._phase_ends = time.monotonic() + GRACE_S

    def _begin_kill(self) -> None:
        self.phase = JobPhase.KILLING
        self._phase_ends = time.monotonic() + KILL_S
        self.next_look_s = 0.0

    # --- running: limits -------------------------------------------------------------------------------

    def _watch(self, now: float) -> None:
        family = self._looks.recent()
        self._used_s = max(self._used_s, self.orphans_cpu_s + sum(p.cpu_s for p in family))
        if self._cpu_s and self._used_s >= self._cpu_s:
            self.kill("cpu_deadline", f"CPU limit of {self._cpu_s:g} s reached")
        elif now >= self._wall_at:
            self.kill("wall_deadline", "wall limit reached")
        elif self._memory_bytes and (rss_bytes := self._memory(family)) > self._memory_bytes:
            self.kill("memory_limit", f"{rss_bytes >> 20} MiB resident, limit {self._memory_bytes >> 20} MiB")
        else:
            self._plan_look(now, self._used_s)

    def _memory(self, family: list[ProcessEntry]) -> int:
        """Return the tree's resident bytes; pages shared by forks are counted once where that decides."""
        resident = [p.rss_bytes for p in family]
        if sum(resident) <= self._memory_bytes:
            return sum(resident)
        # Twice: when a process ends between two readings, its share moves to those not yet read.
        shares = min(sum(process_table.proportional_bytes(p.pid) for p in family) for _ in range(2))
        # What is shared with somebody outside (the template of a fork) counts in full.
        return max(shares, *resident)

    def _plan_look(self, now: float, used_s: float) -> None:
        """Look again when a limit may be reached at the earliest."""
        pause_s = LONGEST_LOOK_S if self._cpu_s or self._memory_bytes else self._wall_at - now
        if self._cpu_s:
            pause_s = min(pause_s, (self._cpu_s - used_s) / (os.cpu_count() or 1))
        if self._memory_bytes:
            pause_s = 2 * SHORTEST_LOOK_S
        self.next_look_s = min(now + max(pause_s, SHORTEST_LOOK_S), self._wall_at)

    # --- the end ---------------------------------------------------------------------------------------

    def _check_survivors(self, now: float) -> None:
        family = self._looks.fresh()
        if _is_over(family):
            self.phase = JobPhase.DONE
        elif now >= self._phase_ends:
            left = living(family) or family
            # The first process of a world of ours is there for whoever is left in it.
            self._leaked = _names([p for p in left if p.name != INIT] or left)
            self._begin_kill()
            self._check_killed(now)
        else:
            self.next_look_s = min(now + _WAIT_S, self._phase_ends)

    def _check_killed(self, now: float) -> None:
        family = strike(self._looks.fresh, self._looks.foreign)
        if _is_over(family) and self._main is not None:
            self.phase = JobPhase.DONE
        elif now >= self._phase_ends:
            # Who is on his way out has been killed; a world takes its time where the machine is busy.
            self._unkillable = _names([p for p in family if not p.ending])
            self.phase = JobPhase.DONE
        else:
            self.next_look_s = now + _WAIT_S


def _is_over(family: list[ProcessEntry]) -> bool:
    """Tell whether nobody is left, and nobody can have been overlooked.

    A process that keeps forking and exiting may never be seen alive in the table, which we do not read at
    one instant; but each one that ended leaves a zombie until we reap it, and we do not while we look.
    """
    return not family


def _names(procs: list[ProcessEntry]) -> tuple[str, ...]:
    return tuple(str(p) for p in procs[:_NAMES])
