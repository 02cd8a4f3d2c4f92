"""What daemon and clients do alike with the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codeflash_parallel.queue.jobs import QueuePlace, WaitReason

if TYPE_CHECKING:
    from codeflash_parallel.queue.protocol import messages
    from codeflash_parallel.queue.store.store import Store


def listed(store: Store, wanted: messages.List) -> messages.Jobs:
    """Return the jobs that are asked for, without what may be large."""
    from codeflash_parallel.queue.protocol import messages

    found = store.jobs(states=wanted.states, submitter=wanted.submitter, run=wanted.run, limit=wanted.limit)
    return messages.Jobs(jobs=tuple(job._replace(payload="", result="") for job in found))


def without_daemon(place: QueuePlace) -> QueuePlace:
    """Return where a job stands where nobody takes jobs."""
    return place._replace(reason=WaitReason.NO_DAEMON) if place.position else place
