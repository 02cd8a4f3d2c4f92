"""How jobs are handed in: several that come at once are one transaction.

What a submission costs is its turn, the transaction, and waiting for the disk; the job itself is the lesser
part. So who comes while another one waits for its turn lets that one hand in for both, if both go by the
same settings.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

from codeflash_parallel.evalqueue import jobrows
from codeflash_parallel.evalqueue.admission import Admission
from codeflash_parallel.evalqueue.database import NAME, TURN_S, UNFIT, Database, understood
from codeflash_parallel.evalqueue.gathering import Follower, ask, leading
from codeflash_parallel.evalqueue.placing import Placing
from codeflash_parallel.evalqueue.slips import (
    VERSION,
    Slip,
    read_receipt,
    read_slip,
    receipt_text,
    slip_text,
)
from codeflash_parallel.evalqueue.sweeping import Sweep
from codeflash_parallel.evalqueue.timekeeping import QueueClock
from codeflash_parallel.model.jobs import Instant, JobRequest, Receipt
from codeflash_parallel.model.queue_settings import QueueSettings


class _Taken(NamedTuple):
    """A job that was handed in, or that has the same key."""

    job_id: str
    is_new: bool


class Intake:
    """Takes jobs, and what others have put down with them."""

    def __init__(
        self,
        database: Database,
        sweep: Sweep,
        admission: Admission,
        placing: Placing,
        settings: QueueSettings,
    ) -> None:
        self._database = database
        self._sweep = sweep
        self._admission = admission
        self._placing = placing
        self._path = database.folder / "submitting"
        self._terms = b"%d %08x " % (VERSION, zlib.crc32(repr((_file_of(database), settings)).encode()))

    def submit(self, request: JobRequest, now: Instant) -> Receipt:
        """Take a job, or return the one that has its key.

        Raises:
            Refused: nothing has been changed for it.
        """
        slip = Slip(request, now)
        answer = ask(self._path, self._terms, lambda: slip_text(slip), TURN_S)
        if answer:
            return read_receipt(answer)
        # Whoever was asked and has not answered may have done it.
        return self._lead(slip._replace(was_put_down=answer is not None))

    def _lead(self, own: Slip) -> Receipt:
        """Hand in for oneself, and for those who come until the transaction begins."""
        with understood(self._database.folder), leading(self._path, self._terms) as leader:
            with self._database.changing(own.now) as clock:
                now_ms = clock.at(own.now)
                self._sweep.all(now_ms)
                # Inside: who has left by now looks after this transaction, and who has not waits for it.
                others = [(one, slip) for one in leader.gather() if (slip := _slip_of(one)) is not None]
                taken = [self._attempt(slip, clock) for slip in (own, *(slip for _, slip in others))]
            told = self._receipts(taken, now_ms)
            for (follower, _), receipt in zip(others, told[1:], strict=True):
                # One that is refused is not answered: it hands in by itself, and is told so itself.
                if isinstance(receipt, Receipt):
                    follower.answer(receipt_text(receipt))
        if not isinstance(told[0], Receipt):
            raise told[0]
        return told[0]

    def _attempt(self, slip: Slip, clock: QueueClock) -> _Taken | Exception:
        try:
            with self._database.attempt():
                return self._take(slip, clock.at(slip.now))
        except UNFIT as refusal:
            return refusal

    def _take(self, slip: Slip, now_ms: int) -> _Taken:
        known = jobrows.find_key(self._database, slip.request.key)
        if slip.was_put_down:
            own = jobrows.find_handed_in(self._database, slip.request.key, slip.now, now_ms)
            if own is not None:
                return _Taken(own["job_id"], is_new=True)
        if known is not None:
            return _Taken(known["job_id"], is_new=False)
        return _Taken(self._admission.admit(slip.request, now_ms, slip.now), is_new=True)

    def _receipts(self, taken: list[_Taken | Exception], now_ms: int) -> list[Receipt | Exception]:
        """Return what each is told; places are looked up while others may write again."""
        with self._database.reading():
            rows = {
                one.job_id: jobrows.find(self._database, one.job_id)
                for one in taken
                if isinstance(one, _Taken)
            }
            places = dict(zip(rows, self._placing.places(list(rows.values()), now_ms), strict=True))
            return [
                Receipt(job=jobrows.job_of(rows[one.job_id]), place=places[one.job_id], is_new=one.is_new)
                if isinstance(one, _Taken)
                else one
                for one in taken
            ]


def _file_of(database: Database) -> tuple[int, int]:
    """Return what tells a queue's file from all others."""
    with understood(database.folder):
        status = (database.folder / NAME).stat()
    return status.st_dev, status.st_ino


def _slip_of(follower: Follower) -> Slip | None:
    """Return what one has put down, `None` where it is nothing of ours."""
    try:
        return read_slip(follower.message)
    except (ValueError, TypeError, RecursionError):
        return None
