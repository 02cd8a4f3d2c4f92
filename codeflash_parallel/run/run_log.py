"""What a run writes down about itself, and what of it holds when the run goes on in another process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from codeflash_parallel.race.race_record import RunRecord
from codeflash_parallel.result.candidate.candidate_model import Submission
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code
from codeflash_parallel.run.providers.provider_requests import Providers
from codeflash_parallel.run.resumed_journal import begin_journal, notes_on, same_snapshot
from codeflash_parallel.run.setup.evaluator_resources import EvaluatorResources
from codeflash_parallel.run.state.ledger import CandidateEntry, Ledger
from codeflash_parallel.run.store.journal import Journal
from codeflash_parallel.run.store.journal_events import (
    Ended,
    Ending,
    Grounded,
    Prepared,
    Snapshotted,
    SourceEnded,
    Submitted,
)
from codeflash_parallel.run.store.race_record_store import RaceRecorder, sound_records
from codeflash_parallel.workspace.snapshot.snapshot import Snapshot


class RunLog:
    """The events of one run that are not findings about its candidates."""

    def __init__(self, journal: Journal, around: EvaluatorResources, ledger: Ledger, run_dir: Path) -> None:
        self._journal, self._around, self._ledger, self._run_dir = journal, around, ledger, run_dir

    async def begin(
        self, begun: Mapping[str, Any], providers: Providers, there: Sequence[CandidateEntry] | None
    ) -> None:
        """Write down what is asked for; of a run that goes on, say what a person should know.

        Args:
            begun: see `resuming.begin_journal`.
            there: all candidates; `None` where they come one by one.
        """
        if self._journal.known is None:
            submissions = None if there is None else [entry.submission for entry in there]
            await begin_journal(self._journal, self._around, begun, providers, submissions)
            return
        for note in notes_on(self._journal.known, providers):
            self._ledger.warn(note)

    def enter(self, submission: Submission) -> CandidateEntry:
        """Enter a candidate that came after the beginning."""
        entry = self._ledger.add(submission)
        self._journal.note(Submitted(submission=entry.submission))
        return entry

    def all_entered(self) -> None:
        """Note that there are no more."""
        self._journal.note(SourceEnded())

    async def snapshot(self) -> Snapshot:
        """Freeze the user's tree; a run that goes on has its snapshot already.

        Raises:
            EnvironmentFault: see `resuming.same_snapshot` and `EvaluatorResources.snapshot`.
        """
        known = self._journal.known
        if known is not None and known.snapshot is not None:
            return await same_snapshot(self._around, known.snapshot, self._ledger.warn)
        snapshot = await self._around.snapshot()
        self._journal.note(Snapshotted(**asdict(snapshot)))
        return snapshot

    @property
    def owner(self) -> str:
        """Name the run's slots: those that were kept when it was killed stay where they are."""
        known = self._journal.known
        return f"{self._run_dir.name}.{known.resumed + 1}" if known else self._run_dir.name

    def stand_on(self, ground: str) -> Mapping[str, Prepared]:
        """Note under which circumstances candidates are judged; findings under others do not count.

        Returns:
            What submissions have become, by their keys; that holds in any case.
        """
        known = self._journal.known
        if known is not None and known.ground not in {"", ground}:
            self._journal.forget()
            self._ledger.warn(
                "Interpreter, packages, environment or our version have changed: all are judged again."
            )
        elif known is not None:
            count = f"{known.judged} of {len(self._ledger)} candidates"
            self._ledger.warn(f"The run goes on: {count} had been checked when it ended.")
        self._journal.note(Grounded(key=ground))
        return self._journal.known.prepared if self._journal.known else {}

    def recorder(self, first: RunRecord) -> RaceRecorder:
        """Return what keeps the races' records; of a run that goes on, those hold that come again."""
        known = self._journal.known
        return RaceRecorder(
            self._run_dir, first, sound_records(self._run_dir) if known and known.ground else ()
        )

    async def end(self, ending: Ending, code: str) -> None:
        """Write down how the run ended; where the machinery failed somebody, going on is worth a try."""
        results = [entry.result for entry in self._ledger if entry.result]
        unjudged = any(r.status is CandidateStatus.INFRA or r.code is Code.RACE_NOT_HELD for r in results)
        if ending is Ending.FINISHED and unjudged:
            ending = Ending.UNJUDGED
        await self._journal.keep(Ended(ending=ending, code=code))
