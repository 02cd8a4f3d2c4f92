"""Candidates made of submissions, ahead of time for those that are there while the baseline is run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from codeflash_parallel.candidates.functions import Target
from codeflash_parallel.check.candidate_changes import Changes
from codeflash_parallel.result.candidate.candidate_model import (
    Candidate,
    CandidateId,
    Unappliable,
)
from codeflash_parallel.result.codec import to_plain
from codeflash_parallel.run.state.ledger import CandidateEntry
from codeflash_parallel.run.store.step_cache import StepCache, StepKind
from codeflash_parallel.workspace.snapshot.candidate_builder import materialise
from codeflash_parallel.workspace.snapshot.mirror import Mirror
from codeflash_parallel.workspace.snapshot.snapshot import Snapshot

_Made = Candidate | Unappliable


class CandidatePreparer:
    """Makes candidates of one run's submissions.

    Args:
        cache: holds what submissions have become; a ref may name something else by now.
    """

    def __init__(
        self,
        mirror: Mirror,
        snapshot: Snapshot,
        targets: Sequence[Target],
        interpreter: Path,
        cache: StepCache,
    ) -> None:
        self._cache = cache
        self._mirror, self._snapshot = mirror, snapshot
        self._targets, self._interpreter = targets, interpreter
        self._made: dict[CandidateId, Candidate | Unappliable] = {}
        #: Of the candidates that are made here.
        self.changes = Changes(targets, partial(mirror.read, snapshot))

    async def ahead(self, entries: Iterable[CandidateEntry]) -> None:
        """Make candidates that will be asked for; nobody is told yet. Cancelling keeps what is made.

        Raises:
            EnvironmentFault: the mirror or its disk.
        """
        for entry in entries:
            await self.candidate(entry)

    async def candidate(self, entry: CandidateEntry) -> Candidate | Unappliable:
        """Return the candidate of a submission, or why it cannot be one.

        Raises:
            EnvironmentFault: the mirror or its disk.
        """
        if entry.id not in self._made:
            self._made[entry.id] = await self._make(entry)
        return self._made[entry.id]

    async def _make(self, entry: CandidateEntry) -> Candidate | Unappliable:
        submission = entry.submission
        key = to_plain(submission)
        made: Candidate | Unappliable | None = self._cache.get(_Made, StepKind.PREPARED, key)
        if made is None:
            made = await materialise(
                self._mirror, self._snapshot, submission, self._targets, interpreter=self._interpreter
            )
            self._cache.put(_Made, made, StepKind.PREPARED, key)
        if isinstance(made, Candidate):
            self.changes.look_at(made)
        return made
