"""Who below the launcher belongs to which job."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from functools import partial

from codeflash_parallel.process import process_table
from codeflash_parallel.process.process_table import ProcessEntry
from codeflash_parallel.process.supervisor.supervised_job import ProcessTableView, SupervisedJob

#: Looks at the process table take at most one part in so many of our time; each costs about 8 µs a process.
_LOOK_SHARE = 40


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

    def looks(self, number: int, pid: int) -> ProcessTableView:
        """Return what a job sees, given its number and its main process."""
        return ProcessTableView(
            recent=partial(self._recent, number),
            fresh=partial(self._fresh, number),
            foreign=partial(self._foreign, pid),
            oom_kills=self._oom_killed,
        )

    def is_main(self, pid: int) -> bool:
        """Tell whether a process is the main one of a job."""
        return pid in self._mains()

    def forget(self, pid: int) -> None:
        """Let no job count a process among its own that is going to be a job's main one."""
        for job in self._jobs.values():
            job.known.pop(pid, None)
        self._view_at = 0.0

    def _recent(self, number: int) -> list[ProcessEntry]:
        """Return the processes of one job, zombies included; a little old on a full machine."""
        if time.monotonic() - self._view_at > self._view_cost_s * _LOOK_SHARE:
            self._look()
        return self._view.get(number, [])

    def _fresh(self, number: int) -> list[ProcessEntry]:
        """Return the processes of one job, zombies included, as they are now."""
        if self._is_nobody_left(number):
            return []
        self._look()
        return self._view.get(number, [])

    def _is_nobody_left(self, number: int) -> bool:
        """Tell from our own children alone, which takes no walk through the whole table.

        Whoever lives descends from one of them, be it from one that has ended and is not yet reaped.
        """
        mains = self._mains()
        children = process_table.own_children()
        if children is None or self._jobs[number].pid in children:
            return False
        orphans = [process_table.process(pid) for pid in children if pid not in mains]
        return not any(proc and self._owner(proc) is self._jobs[number] for proc in orphans)

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

    def _foreign(self, pid: int) -> set[int]:
        """Return the process groups that are not of the job with this main process."""
        return {os.getpgrp(), *self._mains()} - {pid}

    def _oom_killed(self, age_s: float) -> int:
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
