"""Judge candidates with a memory: what the journal knows is not found out again, what is new goes into it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from codeflash_parallel.behavior.plan import CheckOutcome
from codeflash_parallel.engine.happened import Checked, Look, Spending, key_of
from codeflash_parallel.engine.journal import Journal
from codeflash_parallel.engine.judging import INFRA, Examination, Judging
from codeflash_parallel.engine.ledger import Entry, Spent

#: Stands for the slot of a check that an earlier process has made.
_NO_SLOT = 0


class Remembering:
    """Judges as `Judging` does, and keeps every finding about a candidate."""

    def __init__(self, judging: Judging, journal: Journal) -> None:
        self._judging, self._journal = judging, journal

    async def judge(
        self,
        entry: Entry,
        examination: Examination,
        time: Spent,
        *,
        look: Look,
        taken: Callable[[int], None],
        again: Callable[[], None],
    ) -> CheckOutcome:
        """Judge one candidate, unless that was done.

        Args:
            look: which check it is.
            taken: called with the number of the slot that was taken; 0 when none was needed.

        The others, and what is raised, are those of `Judging.judge`.
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
        if outcome.code not in INFRA:
            self._journal.note(_checked(entry, look, outcome, time))
        return outcome

    def _known(self, entry: Entry, look: Look) -> Checked | None:
        known = self._journal.known
        return known.checks.get((key_of(entry.submission), look)) if known else None


def _checked(entry: Entry, look: Look, outcome: CheckOutcome, time: Spent) -> Checked:
    return Checked(
        key=key_of(entry.submission),
        look=look,
        outcome=outcome,
        spent=Spending(
            queue_ns=time.queue_ns,
            held_ns=time.held_ns,
            stage_ns=time.stage_ns,
            tests_ns=time.tests_ns,
            steps_ms=dict(time.steps_ms),
        ),
        notes=tuple(entry.notes),
        kept_slot=entry.kept_slot,
        reproduce=entry.reproduce,
    )


def _restore(known: Checked, entry: Entry, time: Spent) -> None:
    spent = known.spent
    time.queue_ns, time.held_ns, time.since_ns = spent.queue_ns, spent.held_ns, 0
    time.stage_ns, time.tests_ns = spent.stage_ns, spent.tests_ns
    time.steps_ms = defaultdict(float, spent.steps_ms)
    entry.notes[:] = known.notes
    entry.kept_slot, entry.reproduce = known.kept_slot, known.reproduce
