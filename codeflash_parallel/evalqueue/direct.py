"""What daemon and clients do alike with the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codeflash_parallel.model.jobs import Place, Waiting

if TYPE_CHECKING:
    from codeflash_parallel.evalqueue import calls
    from codeflash_parallel.evalqueue.store import Store


def listed(store: Store, wanted: calls.List) -> calls.Jobs:
    """Return the jobs that are asked for, without what may be large."""
    from codeflash_parallel.evalqueue import calls

    found = store.jobs(states=wanted.states, submitter=wanted.submitter, run=wanted.run, limit=wanted.limit)
    return calls.Jobs(jobs=tuple(job._replace(payload="", result="") for job in found))


def without_daemon(place: Place) -> Place:
    """Return where a job stands where nobody takes jobs."""
    return place._replace(reason=Waiting.NO_DAEMON) if place.position else place
