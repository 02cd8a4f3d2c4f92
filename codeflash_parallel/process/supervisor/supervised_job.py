"""One child and its descendants, as the launcher follows them: membership, limits, end and killing.

    RUNNING --main process exits--> SETTLING --nobody left--------------> DONE
       |                               | somebody left after the grace
       | limit reached, or told to     v (they are named as leaked)
       +---------------------------> KILLING --nobody left, or 2 s-------> DONE

The supervisor calls `main_exited` and `step`; nothing here blocks or waits.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from functools import partial

from codeflash_parallel.process import process_table
from codeflash_parallel.process.message_frames import Message
from codeflash_parallel.process.process_table import ProcessEntry

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
#: Looks at the process table take at most one part in so many of our time; each costs about 8 µs a process.
_LOOK_SHARE = 40
#: Rounds of stopping what appeared since the last look; a fork bomb needs several.
_STOP_ROUNDS = 12
#: Name of the first process of a namespace of ours (`_runner.sandbox.namespaces`).
INIT = "cfp-init"


class JobPhase(StrEnum):
    """State of a job."""

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
        membership: what the process table says of the job's processes.
    """

    def __init__(self, request: Message, pid: int, errors: int | None, membership: JobMembership) -> None:
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
        self._membership = membership
        self._cpu_s: float = request["cpu_s"]
        self._memory_bytes: int = request["memory_bytes"]
        self._limit_bytes = self._memory_bytes
        self._oom_kills = membership.oom_kills(OOM_AGE_S)
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
        return ("oom_killed" if self._membership.oom_kills(0.0) > self._oom_kills else "signalled"), ""

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
        family = self._membership.recent(self)
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

    # In an empty family no process is overlooked: one that keeps forking and exiting may never be seen alive
    # in the table, which we do not read at one instant; but each one that ended leaves a zombie until we reap
    # it, and we do not while we look.

    def _check_survivors(self, now: float) -> None:
        family = self._membership.fresh(self)
        if not family:
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
        family = strike(partial(self._membership.fresh, self), self._membership.foreign(self))
        if not family and self._main is not None:
            self.phase = JobPhase.DONE
        elif now >= self._phase_ends:
            # Who is on his way out has been killed; a world takes its time where the machine is busy.
            self._unkillable = _names([p for p in family if not p.ending])
            self.phase = JobPhase.DONE
        else:
            self.next_look_s = now + _WAIT_S


def _names(procs: list[ProcessEntry]) -> tuple[str, ...]:
    return tuple(str(p) for p in procs[:_NAMES])


class JobMembership:
    """The launcher's view of the process table.

    Args:
        jobs: those that run, by number; the launcher's own, which changes.
    """

    def __init__(self, jobs: Mapping[int, SupervisedJob]) -> None:
        self._jobs = jobs
        self._view: dict[int, list[ProcessEntry]] = {}
        self._view_at = self._view_cost_s = 0.0
        self._oom_kills, self._oom_kills_at = process_table.oom_kills(), time.monotonic()

    def is_main(self, pid: int) -> bool:
        """Tell whether a process is the main one of a job."""
        return pid in self._mains()

    def forget(self, pid: int) -> None:
        """Let no job count a process among its own that is going to be a job's main one."""
        for job in self._jobs.values():
            job.known.pop(pid, None)
        self._view_at = 0.0

    def recent(self, job: SupervisedJob) -> list[ProcessEntry]:
        """Return the processes of one job, zombies included; a little old on a full machine."""
        if time.monotonic() - self._view_at > self._view_cost_s * _LOOK_SHARE:
            self._look()
        return self._view.get(job.number, [])

    def fresh(self, job: SupervisedJob) -> list[ProcessEntry]:
        """Return the processes of one job, zombies included, as they are now."""
        if self._is_nobody_left(job):
            return []
        self._look()
        return self._view.get(job.number, [])

    def _is_nobody_left(self, job: SupervisedJob) -> bool:
        """Tell from our own children alone, which takes no walk through the whole table.

        Whoever lives descends from one of them, be it from one that has ended and is not yet reaped.
        """
        mains = self._mains()
        children = process_table.own_children()
        if children is None or job.pid in children:
            return False
        orphans = [process_table.process(pid) for pid in children if pid not in mains]
        return not any(proc and self._owner(proc) is job for proc in orphans)

    def _look(self) -> None:
        """Read the process table; every job notes its members."""
        begun = time.monotonic()
        self._view = {}
        owners: dict[int, SupervisedJob | None] = {}
        for proc in process_table.descendants(os.getpid()):
            if proc.pid == proc.head:
                owners[proc.pid] = self._owner(proc)
            owner = owners[proc.head]
            if owner is not None:
                owner.known[proc.pid] = proc.start
                self._view.setdefault(owner.number, []).append(proc)
        self._view_at = time.monotonic()
        self._view_cost_s = self._view_at - begun

    def foreign(self, job: SupervisedJob) -> set[int]:
        """Return the process groups of the launcher and of other jobs."""
        return {os.getpgrp(), *self._mains()} - {job.pid}

    def oom_kills(self, age_s: float) -> int:
        """Return how many processes the kernel has killed for want of memory; it may be so old."""
        if time.monotonic() - self._oom_kills_at >= age_s:
            self._oom_kills, self._oom_kills_at = process_table.oom_kills(), time.monotonic()
        return self._oom_kills

    def _mains(self) -> dict[int, SupervisedJob]:
        return {job.pid: job for job in self._jobs.values()}

    def _owner(self, head: ProcessEntry) -> SupervisedJob | None:
        """Tell whose a direct child of ours is: a main process, or an orphan that has been handed to us."""
        mains = self._mains()
        for pid in (head.pid, head.session):  # in this order: a fork may not have left its session yet
            if pid in mains:
                return mains[pid]
        for job in self._jobs.values():
            if job.known.get(head.pid) == head.start:
                return job
        marker = process_table.marker(head.pid)
        tag = 0 if marker else process_table.tag(head.pid)
        for job in self._jobs.values():
            if job.marker == marker or (tag and job.tag == tag):
                return job
        return None


def strike(look: Callable[[], list[ProcessEntry]], foreign: set[int]) -> list[ProcessEntry]:
    """Stop everybody, so that nobody can start another one meanwhile; then kill them all.

    Args:
        look: returns the family as it is now, zombies included.
        foreign: the process groups that are not the family's.

    Returns:
        The family as it was seen last.
    """
    family = look()
    _end_worlds(family)
    stopped: set[int] = set()
    for _ in range(_STOP_ROUNDS):
        moving = [p.pid for p in living(family) if p.pid not in stopped]
        if not moving:
            break
        _signal(moving, signal.SIGSTOP)
        stopped.update(moving)
        family = look()
    # Groups first: the kernel signals a whole group at once, which no fork slips through.
    # (A vanishing process may show 0 or -1 here, which mean something else to kill; a fork that has
    # just been adopted may still be in its template's group.)
    groups = {p.group for p in family if p.group > 1} - foreign
    _signal([-group for group in groups], signal.SIGKILL)
    _signal([p.pid for p in living(family)], signal.SIGKILL)
    return family


def living(family: Iterable[ProcessEntry]) -> list[ProcessEntry]:
    """Return those that have not ended."""
    return [p for p in family if not p.gone]


def _end_worlds(family: list[ProcessEntry]) -> None:
    """Kill the first process of every process namespace: the kernel kills all others in there with it."""
    inits = [p.pid for p in living(family) if p.name == INIT]
    _signal([pid for pid in inits if process_table.own_number(pid) == 1], signal.SIGKILL)


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # gone; another user's: reported
            os.kill(pid, number)
