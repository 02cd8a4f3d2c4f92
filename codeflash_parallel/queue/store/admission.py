"""Which jobs are taken, and which refused."""

from __future__ import annotations

import sqlite3

from codeflash_parallel.queue.database.connection import Database
from codeflash_parallel.queue.errors import QueueFull, RateLimited, SubmitterLimit, UnknownKind
from codeflash_parallel.queue.jobs import Instant, JobKind, JobRequest, JobState, Overflow
from codeflash_parallel.queue.queue_settings import QueueSettings
from codeflash_parallel.queue.store.accounts import Accounts, share_of
from codeflash_parallel.queue.store.job_rows import new_row
from codeflash_parallel.queue.store.state_transitions import Transitions

_OLDEST = "SELECT * FROM jobs WHERE state = 'queued' ORDER BY queued_ms, turn LIMIT 1"


class JobAdmission:
    """Takes jobs or refuses them; each call belongs to a change of the caller's, which a refusal undoes."""

    def __init__(
        self, database: Database, accounts: Accounts, transitions: Transitions, settings: QueueSettings
    ) -> None:
        self._database = database
        self._accounts = accounts
        self._transitions = transitions
        self._settings = settings

    def admit(self, request: JobRequest, now_ms: int, now: Instant) -> str:
        """Take a new job and return its id.

        Raises:
            Refused: with the limit that it meets.
        """
        if request.kind not in list(JobKind):
            raise UnknownKind(str(request.kind))
        share = share_of(request.run, request.submitter)
        self._accounts.open(share, request.submitter, now_ms)
        self._accounts.refuse_if_spent(request, share, now_ms)
        self._refuse_submitter(request.submitter)
        self._make_room(now_ms)
        return self._insert(request, share, now_ms, now)

    def _insert(self, request: JobRequest, share: str, now_ms: int, now: Instant) -> str:
        number, queued_ms = self._transitions.next_turn(now_ms)
        due_ms = now_ms + round(request.start_after_s * 1000) if request.start_after_s > 0 else 0
        columns = new_row(request, number, queued_ms, due_ms, now)
        if columns["ready"]:
            self._accounts.enter(share, request.submitter, number)
        self._database.insert("jobs", columns)
        self._accounts.count_submission(share)
        return str(columns["job_id"])

    def readmit(self, row: sqlite3.Row, now_ms: int) -> None:
        """Send a dead job to the end of the line, with its attempts anew.

        Raises:
            Refused: with the limit that it meets.
        """
        self._accounts.refuse_again_if_spent(row, now_ms)
        self._refuse_submitter(row["submitter"])
        self._make_room(now_ms)
        anew = {"crashes": 0, "machinery_faults": 0, "ended_ms": 0, "worker": ""}
        self._transitions.line_up(row, now_ms, **anew)

    def _refuse_submitter(self, submitter: str) -> None:
        settings = self._settings
        if not settings.per_submitter_queued and not settings.rate_limit:
            return
        queued = self._queued("WHERE submitter = ?", submitter)
        if settings.per_submitter_queued and queued >= settings.per_submitter_queued:
            raise SubmitterLimit(submitter, settings.per_submitter_queued)
        if settings.rate_limit and settings.queue_timeout:
            # As many as its rate lets start before they expire; the others would wait in vain.
            startable = int(settings.rate_limit * settings.queue_timeout / 60)
            if queued >= max(1, startable):
                raise RateLimited(submitter, 60 / settings.rate_limit * (queued - startable + 1))

    def _make_room(self, now_ms: int) -> None:
        limit = self._settings.max_queue_size
        if not limit or self._queued("") < limit:
            return
        oldest = self._database.row(_OLDEST)
        if self._settings.overflow is Overflow.REJECT or oldest is None:
            raise QueueFull(limit)
        fault = f"QUEUE_FULL: a newer job took its place in a queue of {limit}"
        self._transitions.end(oldest, JobState.DROPPED, now_ms, fault=fault)

    def _queued(self, where: str, *values: str) -> int:
        return self._database.number(f"SELECT SUM(queued) FROM lanes {where}", values)  # noqa: S608 - our own text
