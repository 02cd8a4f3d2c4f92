"""Judge candidates with a memory: what the journal knows is not found out again, what is new goes into it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import fields

from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.result.outcome_codes import Trait
from codeflash_parallel.run.check_phase.candidate_examiner import CandidateExaminer, Examination
from codeflash_parallel.run.state.ledger import CandidateEntry, CandidateTimes
from codeflash_parallel.run.store.journal import Journal
from codeflash_parallel.run.store.journal_events import Checked, Look, Spending, key_of

#: Stands for the slot of a check that an earlier process has made.
_NO_SLOT = 0
#: What is added up in nanoseconds; when a wait began means nothing to another process.
_COUNTERS = tuple(f.name for f in fields(CandidateTimes) if f.name.endswith("_ns") and f.name != "since_ns")


class JournaledExaminer:
    """Judges as `CandidateExaminer` does, and keeps every finding about a candidate."""

    def __init__(self, judging: CandidateExaminer, journal: Journal) -> None:
        self._judging, self._journal = judging, journal

    async def judge(
        self,
        entry: CandidateEntry,
        examination: Examination,
        time: CandidateTimes,
        *,
        look: Look,
        taken: Callable[[int], None],
        again: Callable[[], None],
    ) -> CheckOutcome:
        """Judge one candidate, unless that was done.

        Args:
            look: which check it is.
            taken: called with the number of the slot that was taken; 0 when none was needed.

        The others, and what is raised, are those of `CandidateExaminer.judge`.
        """
        known = self._known(entry, look)
        if known is not None:
            taken(_NO_SLOT)
            _restore(known, entry, time)
            return known.outcome
        outcome = await self._judging.judge(
            entry,
            examination,
            time,
            taken=lambda slot: taken(slot.workspace.number),
            again=again,
        )
        # What the machinery broke is no finding: whoever goes on with the run tries once more.
        if Trait.INFRA not in outcome.code.traits:
            self._journal.note(_checked(entry, look, outcome, time))
        return outcome

    def _known(self, entry: CandidateEntry, look: Look) -> Checked | None:
        known = self._journal.known
        return known.checks.get((key_of(entry.submission), look)) if known else None


def _checked(entry: CandidateEntry, look: Look, outcome: CheckOutcome, time: CandidateTimes) -> Checked:
    return Checked(
        key=key_of(entry.submission),
        look=look,
        outcome=outcome,
        spent=Spending(ns={name: getattr(time, name) for name in _COUNTERS}, steps_ms=dict(time.steps_ms)),
        notes=tuple(entry.notes),
        kept_slot=entry.kept_slot,
        reproduce=entry.reproduce,
    )


def _restore(known: Checked, entry: CandidateEntry, time: CandidateTimes) -> None:
    spent = known.spent
    for name in _COUNTERS:
        setattr(time, name, spent.ns.get(name, 0))
    time.since_ns = 0  # it waits for no slot
    time.steps_ms = defaultdict(float, spent.steps_ms)
    entry.notes[:] = known.notes
    entry.kept_slot, entry.reproduce = known.kept_slot, known.reproduce
