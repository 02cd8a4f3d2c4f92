"""The book of a run: every candidate, where it is, what was found, in the order of the contract."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.result.candidate.candidate_model import (
    Candidate,
    CandidateId,
    CandidateOrigin,
    Submission,
)
from codeflash_parallel.result.candidate.lifecycle import FINAL_STATUSES, Stage, Step, advance
from codeflash_parallel.result.errors import InternalError
from codeflash_parallel.result.events import CandidateFinished, CandidateMoved, Event, RaceProgress, Warned
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code
from codeflash_parallel.result.result_model import STEPS, CandidateResult, Flag

#: Where a candidate is that is equivalent to the baseline, as far as anyone knows.
_EQUIVALENT = frozenset({Stage.PASSED, Stage.RACING, Stage.RACED, Stage.CONFIRMING})


@dataclass(kw_only=True, slots=True)
class CandidateTimes:
    """Where a candidate's time went, over several tries of the same thing.

    Attributes:
        queue_ns: waiting for slots.
        held_ns: holding slots, their restoring included.
        stage_ns: of `held_ns`: staging, audit, undoing.
        tests_ns: of `held_ns`: the tests' own setups, calls and teardowns.
        gate_ns: of `held_ns`: canaries, seals and their comparison.
        isolation_ns: of `held_ns`: entering isolation levels.
        steps_ms: of `held_ns`: what the checks themselves measured, by the names of `STEPS`.
        since_ns: when the wait began that goes on now; 0: it does not wait.
    """

    queue_ns: int = 0
    held_ns: int = 0
    stage_ns: int = 0
    tests_ns: int = 0
    gate_ns: int = 0
    isolation_ns: int = 0
    steps_ms: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    since_ns: int = 0

    def waits(self, now_ns: int) -> None:
        """Note that it waits for a slot, if it does not already."""
        self.since_ns = self.since_ns or now_ns

    def served(self, now_ns: int) -> None:
        """Note that the wait is over."""
        self.queue_ns += now_ns - self.since_ns
        self.since_ns = 0

    def add(self, outcome: CheckOutcome) -> None:
        """Add what one check measured."""
        self.tests_ns += outcome.tests_ns
        self.gate_ns += outcome.gate_ns
        self.isolation_ns += outcome.isolation_ns
        for step, ms in outcome.timings_ms.items():
            self.steps_ms[step] += ms

    def recorded(self) -> dict[str, Any]:
        """Return all of it, as JSON values."""
        return {name: getattr(self, name) for name in self.__slots__}

    def restore(self, recorded: Mapping[str, Any]) -> None:
        """Take over what `recorded` gave in another process; nothing is waited for."""
        for name, value in recorded.items():
            setattr(self, name, value)
        self.steps_ms = defaultdict(float, self.steps_ms)
        self.since_ns = 0

    @property
    def overhead_ms(self) -> float:
        """Return what slots were held for besides the tests, and besides evidence, which a repair wants."""
        held_ms = (self.held_ns - self.tests_ns) / 1e6
        return max(0.0, held_ms - self.steps_ms.get("evidence", 0.0))

    def by_step(self) -> dict[str, float]:
        """Return milliseconds by step; together they are the wait and the time slots were held."""
        if not self.held_ns:
            return {}
        known = {**self.steps_ms, "queue": self.queue_ns / 1e6, "stage": self.stage_ns / 1e6}
        inside = sum(ms for step, ms in known.items() if step not in {"queue", "other"})
        known["other"] = max(0.0, self.held_ns / 1e6 - inside)
        return {step: known.get(step, 0.0) for step in STEPS}


@dataclass(kw_only=True, slots=True, eq=False)
class CandidateEntry:
    """One candidate of a run. Its stage changes only through `Ledger`.

    Attributes:
        time: of its check.
        confirming: of the tests that screening left out, and of the look after a race.
        owes_tests: it was screened, and has not passed the other tests that it has to pass.
        flags: what its code has and the baseline's has not.
    """

    submission: Submission
    lineage: tuple[CandidateId, ...]
    stage: Stage = Stage.SUBMITTED
    candidate: Candidate | None = None
    outcome: CheckOutcome | None = None
    result: CandidateResult | None = None
    diff_path: str = ""
    time: CandidateTimes = field(default_factory=CandidateTimes)
    confirming: CandidateTimes = field(default_factory=CandidateTimes)
    attempts: int = 0
    kept_slot: str = ""
    reproduce: str = ""
    notes: list[str] = field(default_factory=list)
    owes_tests: bool = False
    flags: tuple[Flag, ...] = ()

    @property
    def derived(self) -> bool:
        """Whether a provider made it during the run."""
        return self.submission.kind in {CandidateOrigin.REPAIR, CandidateOrigin.REFINEMENT}

    @property
    def id(self) -> CandidateId:
        """The candidate's name."""
        return self.submission.id

    @property
    def is_refinement(self) -> bool:
        """Whether a refinement has made it."""
        return self.submission.kind is CandidateOrigin.REFINEMENT

    @property
    def passed(self) -> bool:
        """Whether it is equivalent to the baseline, as far as anyone knows."""
        return self.stage in _EQUIVALENT

    @property
    def staged(self) -> Candidate:
        """The candidate as edits.

        Raises:
            InternalError: it has not become one yet.
        """
        if self.candidate is None:
            raise InternalError("NO_EDITS", f"Candidate {self.id} has no edits.")
        return self.candidate


class Ledger:
    """Holds the entries, makes every transition, and tells the observers."""

    def __init__(self, run_id: str, emit: Callable[[Event], None]) -> None:
        self.run_id = run_id
        self._emit = emit
        self._entries: dict[CandidateId, CandidateEntry] = {}
        self.warnings: list[str] = []

    def __iter__(self) -> Iterator[CandidateEntry]:
        """Yield submitted entries in submission order, then derived ones in order of arrival."""
        yield from (e for e in self._entries.values() if not e.derived)
        yield from (e for e in self._entries.values() if e.derived)

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, candidate: CandidateId) -> CandidateEntry:
        """Return the entry of a candidate of this run."""
        return self._entries[candidate]

    def add(self, submission: Submission) -> CandidateEntry:
        """Enter a submission under an id that is free; an id that was taken gets a number behind it."""
        name = self._free_id(submission.id)
        if name != submission.id:
            self.warn(f"Two candidates are called {submission.id!r}; the later one is now {name!r}.")
            submission = replace(submission, id=name)
        entry = CandidateEntry(submission=submission, lineage=self._lineage(submission))
        self._entries[name] = entry
        self._moved(entry, 0)
        return entry

    def _free_id(self, wanted: CandidateId) -> CandidateId:
        name, number = wanted, 1
        while name in self._entries or name == "baseline":
            number += 1
            name = CandidateId(f"{wanted}-{number}")
        return name

    def _lineage(self, submission: Submission) -> tuple[CandidateId, ...]:
        if submission.parent is None:
            return ()
        parent = self._entries.get(submission.parent)
        return (*(parent.lineage if parent else ()), submission.parent)

    def move(self, entry: CandidateEntry, step: Step, slot: int = 0) -> None:
        """Take one step and tell."""
        entry.stage = advance(entry.stage, step)
        self._moved(entry, slot)

    def finish(
        self, entry: CandidateEntry, status: CandidateStatus, code: Code, reason: str, **fields: object
    ) -> None:
        """Give an entry its final result.

        Raises:
            InternalError: the status cannot follow from the entry's stage.
        """
        if status not in FINAL_STATUSES.get(entry.stage, frozenset()):
            raise InternalError(
                "ILLEGAL_STATUS", f"A candidate that is {entry.stage} cannot end as {status}."
            )
        entry.stage = advance(
            entry.stage, Step.CANCEL if status is CandidateStatus.CANCELLED else Step.FINISH
        )
        entry.result = replace(provisional(entry, status, code, reason), **fields)  # type: ignore[arg-type]
        self._emit(CandidateFinished(run_id=self.run_id, candidate=entry.id, result=entry.result))

    def warn(self, message: str) -> None:
        """Record a warning once and tell."""
        if message not in self.warnings:
            self.warnings.append(message)
            self._emit(Warned(run_id=self.run_id, message=message))

    def raced(self, progress: RaceProgress) -> None:
        """Tell how a race stands."""
        self._emit(progress)

    def _moved(self, entry: CandidateEntry, slot: int) -> None:
        moved = CandidateMoved(run_id=self.run_id, candidate=entry.id, stage=entry.stage, slot=slot)
        self._emit(moved)


def provisional(entry: CandidateEntry, status: CandidateStatus, code: Code, reason: str) -> CandidateResult:
    """Return what is known of an entry, under a status."""
    outcome, submission = entry.outcome, entry.submission
    known = CandidateResult(
        id=entry.id,
        origin=submission.kind,
        status=status,
        code=code,
        reason=reason,
        parent=submission.parent,
        lineage=entry.lineage,
        explanation=submission.explanation,
        diff_path=entry.diff_path,
        diff=entry.candidate.diff if entry.candidate else "",
        kept_slot=entry.kept_slot,
        reproduce=entry.reproduce,
        notes=tuple(entry.notes),
        flags=entry.flags,
    )
    if outcome is None:
        return known
    return replace(
        known,
        tests=outcome.tests,
        values=outcome.values,
        failures=outcome.failures,
        difference=outcome.difference,
        outside=outcome.outside,
        hints=outcome.hints,
        overhead_ms=entry.time.overhead_ms,
        gate_ms=(entry.time.gate_ns + entry.confirming.gate_ns) / 1e6,
        isolation_ms=(entry.time.isolation_ns + entry.confirming.isolation_ns) / 1e6,
        timings_ms=together(entry.time.by_step(), entry.confirming.by_step()),
        served=outcome.served,
        served_why=outcome.served_why,
        notes=(*entry.notes, *outcome.notes),
    )


def together(check_ms: Mapping[str, float], confirming_ms: Mapping[str, float]) -> dict[str, float]:
    """Return the steps of a check and of the looks after it, in milliseconds.

    Waits are waits and tests are tests in both; whatever else the later looks took is `confirm`.
    """
    if not confirming_ms:
        return dict(check_ms)
    steps = dict(check_ms)
    for step, ms in confirming_ms.items():
        steps[step if step in {"queue", "calls"} else "confirm"] += ms
    return steps


def copied_from_originals(
    results: Mapping[CandidateId, CandidateResult],
) -> dict[CandidateId, CandidateResult]:
    """Give duplicates the findings of the candidate that they repeat."""
    copied = {}
    for name, result in results.items():
        original = results.get(CandidateId(result.duplicate_of)) if result.duplicate_of else None
        if original is None:
            copied[name] = result
        else:
            same = {field: getattr(original, field) for field in ("tests", "values", "hints", "speedup")}
            copied[name] = replace(result, **same)
    return copied


def summed(timings_ms: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return the sum of candidates' times, by step; empty when none held a slot."""
    spent = [timings for timings in timings_ms if timings]
    return {step: sum(timings.get(step, 0.0) for timings in spent) for step in STEPS} if spent else {}
