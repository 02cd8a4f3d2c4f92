"""The candidates of a run, in the order of the report; the context of a run, and its findings so far."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic_ns
from typing import Any

from codeflash_parallel.baseline.step_reporter import StepReporter
from codeflash_parallel.candidates.functions import Target
from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.candidate_changes import Changes
from codeflash_parallel.check.check_plan import CheckOutcome, CheckPlan
from codeflash_parallel.check.session.runner_session import RunnerConfig
from codeflash_parallel.config.settings import Settings
from codeflash_parallel.process.host_lock import HostLock
from codeflash_parallel.race.race_result import RaceOutcome, RaceRanking
from codeflash_parallel.result.candidate_model import (
    Candidate,
    CandidateId,
    CandidateOrigin,
    Submission,
)
from codeflash_parallel.result.errors import InternalError
from codeflash_parallel.result.events import (
    CandidateFinished,
    CandidateMoved,
    Event,
    Observer,
    PhaseStarted,
    Stage,
    Step,
    Warned,
    advance,
)
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code
from codeflash_parallel.result.result_model import STEPS, CandidateResult, Flag, HostUse, LineProfile
from codeflash_parallel.run.campaign import Campaign, Comparison
from codeflash_parallel.run.run_state import StepCache
from codeflash_parallel.run.setup.evaluator_setup import Setup
from codeflash_parallel.warm.server_fleet import Fleet
from codeflash_parallel.workspace.slot_pool import SlotPool
from codeflash_parallel.workspace.snapshot.mirror import Mirror, Snapshot

#: Fields of a result that are those of the outcome of its check.
_OF_OUTCOME = ("tests", "values", "failures", "difference", "outside", "hints", "served", "served_why")
#: Stages of a candidate that is equivalent to the baseline, as far as is known.
_EQUIVALENT = frozenset({Stage.PASSED, Stage.RACING, Stage.RACED, Stage.CONFIRMING})


@dataclass(kw_only=True, slots=True)
class CandidateTimes:
    """Time of a candidate, summed over the attempts of a check.

    Attributes:
        queue_ns: waiting for slots.
        held_ns: holding slots, their restoring included.
        stage_ns: of `held_ns`: staging, audit, undoing.
        tests_ns: of `held_ns`: the tests' own setups, calls and teardowns.
        gate_ns: of `held_ns`: canaries, seals and their comparison.
        isolation_ns: of `held_ns`: entering isolation levels.
        steps_ms: of `held_ns`: what the checks themselves measured, by the names of `STEPS`.
        since_ns: start of the current wait; 0: it does not wait.
    """

    queue_ns: int = 0
    held_ns: int = 0
    stage_ns: int = 0
    tests_ns: int = 0
    gate_ns: int = 0
    isolation_ns: int = 0
    steps_ms: dict[str, float] = field(default_factory=dict)
    since_ns: int = 0

    def begin_wait(self, now_ns: int) -> None:
        """Begin a wait for a slot, unless one has begun."""
        self.since_ns = self.since_ns or now_ns

    def end_wait(self, now_ns: int) -> None:
        """End the wait for a slot."""
        self.queue_ns += now_ns - self.since_ns
        self.since_ns = 0

    def add_step(self, step: str, ms: float) -> None:
        """Add milliseconds of a step of `STEPS`."""
        self.steps_ms[step] = self.steps_ms.get(step, 0.0) + ms

    def add(self, outcome: CheckOutcome) -> None:
        """Add what one check measured."""
        self.tests_ns += outcome.tests_ns
        self.gate_ns += outcome.gate_ns
        self.isolation_ns += outcome.isolation_ns
        for step, ms in outcome.timings_ms.items():
            self.add_step(step, ms)

    @property
    def overhead_ms(self) -> float:
        """Time in slots besides the tests and the evidence for a repair."""
        held_ms = (self.held_ns - self.tests_ns) / 1e6
        return max(0.0, held_ms - self.steps_ms.get("evidence", 0.0))

    def by_step(self) -> dict[str, float]:
        """Return milliseconds by step; their sum is the wait and the time in slots."""
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
        time: of its first check.
        confirming: of the checks after it.
        owes_tests: it was screened, and has not passed the other tests that it has to pass.
        flags: constructs for review that the snapshot's code does not have.
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
    kept_slot: str = ""
    reproduce: str = ""
    notes: list[str] = field(default_factory=list)
    owes_tests: bool = False
    flags: tuple[Flag, ...] = ()

    @property
    def id(self) -> CandidateId:
        """The candidate's name."""
        return self.submission.id

    @property
    def is_derived(self) -> bool:
        """Whether a provider made it during the run."""
        return self.submission.kind in {CandidateOrigin.REPAIR, CandidateOrigin.REFINEMENT}

    @property
    def is_refinement(self) -> bool:
        """Whether a refiner made it."""
        return self.submission.kind is CandidateOrigin.REFINEMENT

    @property
    def passed(self) -> bool:
        """Whether it is equivalent to the baseline, as far as is known."""
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
    """Holds the entries, makes every transition, and tells the observers.

    An observer that raises is dropped, with a warning: it is foreign code and never changes a verdict.
    """

    def __init__(self, run_id: str, observers: Sequence[Observer] = ()) -> None:
        self.run_id = run_id
        self._observers = list(observers)
        self._entries: dict[CandidateId, CandidateEntry] = {}
        self.warnings: list[str] = []

    def __iter__(self) -> Iterator[CandidateEntry]:
        """Yield submitted entries in submission order, then derived ones in order of arrival."""
        yield from (e for e in self._entries.values() if not e.is_derived)
        yield from (e for e in self._entries.values() if e.is_derived)

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, candidate: CandidateId) -> CandidateEntry:
        """Return the entry of a candidate of this run."""
        return self._entries[candidate]

    def newly_passed(self) -> list[CandidateEntry]:
        """Return the candidates that are equivalent and have not raced yet."""
        return [entry for entry in self if entry.stage is Stage.PASSED]

    def add(self, submission: Submission) -> CandidateEntry:
        """Enter a submission under an id that is free; an id that was taken gets a number behind it."""
        name = self._free_id(submission.id)
        if name != submission.id:
            self.warn(f"Two candidates are called {submission.id!r}; the later one is now {name!r}.")
            submission = replace(submission, id=name)
        parent = self._entries.get(submission.parent) if submission.parent else None
        ancestors = () if submission.parent is None else (submission.parent,)
        entry = CandidateEntry(
            submission=submission, lineage=(*(parent.lineage if parent else ()), *ancestors)
        )
        self._entries[name] = entry
        self._moved(entry, 0)
        return entry

    def _free_id(self, wanted: CandidateId) -> CandidateId:
        name, number = wanted, 1
        while name in self._entries or name == "baseline":
            number += 1
            name = CandidateId(f"{wanted}-{number}")
        return name

    def move(self, entry: CandidateEntry, step: Step, slot: int = 0, host: str = "") -> None:
        """Take one step and tell."""
        entry.stage = advance(entry.stage, step)
        self._moved(entry, slot, host)

    def finish(
        self, entry: CandidateEntry, status: CandidateStatus, code: Code, reason: str, **fields: object
    ) -> None:
        """Give an entry its final result.

        Raises:
            InternalError: it has one.
        """
        entry.stage = advance(entry.stage, Step.FINISH)
        entry.result = replace(_result(entry, status, code, reason), **fields)  # type: ignore[arg-type]
        self.announce(CandidateFinished(run_id=self.run_id, candidate=entry.id, result=entry.result))

    def warn(self, message: str) -> None:
        """Record a warning once and tell."""
        if message not in self.warnings:
            self.warnings.append(message)
            self.announce(Warned(run_id=self.run_id, message=message))

    def announce(self, event: Event) -> None:
        """Pass an event to the observers, in order."""
        for observer in tuple(self._observers):
            try:
                observer(event)
            except Exception as error:  # noqa: BLE001 - foreign code
                self._observers.remove(observer)
                self.warn(f"An observer was dropped: it raised {type(error).__name__}: {error}.")

    def _moved(self, entry: CandidateEntry, slot: int, host: str = "") -> None:
        self.announce(
            CandidateMoved(run_id=self.run_id, candidate=entry.id, stage=entry.stage, slot=slot, host=host)
        )


def _result(entry: CandidateEntry, status: CandidateStatus, code: Code, reason: str) -> CandidateResult:
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
    same: dict[str, Any] = {name: getattr(outcome, name) for name in _OF_OUTCOME}
    return replace(
        known,
        **same,
        overhead_ms=entry.time.overhead_ms,
        gate_ms=(entry.time.gate_ns + entry.confirming.gate_ns) / 1e6,
        isolation_ms=(entry.time.isolation_ns + entry.confirming.isolation_ns) / 1e6,
        timings_ms=together(entry.time.by_step(), entry.confirming.by_step()),
        notes=(*entry.notes, *outcome.notes),
    )


def together(check_ms: Mapping[str, float], confirming_ms: Mapping[str, float]) -> dict[str, float]:
    """Return the steps of the first check and of those after it, in milliseconds.

    Waits and tests are added up; everything else of the later checks is `confirm`.
    """
    steps = dict(check_ms)
    for step, ms in confirming_ms.items():
        steps[step if step in {"queue", "calls"} else "confirm"] += ms
    return steps


@dataclass(frozen=True, kw_only=True, slots=True)
class RunContext:
    """Frozen context of a run whose baseline is known.

    Attributes:
        races: whether equivalent candidates are raced.
        cache: results of the run's steps.
        steps: tells what is done at the moment.
        plan: how candidates are checked; a check fills in killers and xdist workers.
        fleet: the slots' warm servers.
        changes: analysis of the candidates' edits.
    """

    run_id: str
    seed: int
    races: bool
    setup: Setup
    ledger: Ledger
    cache: StepCache
    steps: StepReporter
    snapshot: Snapshot
    pool: SlotPool
    targets: tuple[Target, ...]
    plan: CheckPlan
    fleet: Fleet
    changes: Changes

    @property
    def run_dir(self) -> Path:
        """Folder of the run."""
        return self.setup.run_dir(self.run_id)

    @property
    def settings(self) -> Settings:
        """Settings of the run."""
        return self.setup.settings

    @property
    def mirror(self) -> Mirror:
        """Mirror that holds the snapshot."""
        return self.setup.mirror

    @property
    def campaign(self) -> Campaign:
        """Campaign that the run belongs to, by the setting of that name."""
        return Campaign(self.setup.home, self.settings.campaign)

    @property
    def quiet(self) -> HostLock:
        """Lock that keeps checks, of other processes too, away from what is timed."""
        return self.setup.quiet

    @property
    def runner(self) -> RunnerConfig:
        """Configuration that all runners of the run share."""
        return self.plan.runner

    @property
    def baseline(self) -> Baseline:
        """Baseline that candidates are compared with."""
        return self.plan.baseline

    def sources_of(self, candidate: Candidate) -> tuple[tuple[str, str], ...]:
        """Return the text of each target's file, with the candidate applied where it changes it."""
        edited = {edit.path: edit.new for edit in candidate.edits}
        paths = sorted({target.path for target in self.targets} | edited.keys())
        texts = [(path, edited.get(path, self.mirror.read(self.snapshot, path))) for path in paths]
        return tuple((path, text.decode("utf-8", "replace")) for path, text in texts if text is not None)


@dataclass(frozen=True, kw_only=True, slots=True)
class RaceFinding:
    """Findings of the races of a run so far.

    Attributes:
        races: of every round.
        confirmations: of their leaders.
        ranking: of all candidates that ever raced; `None` before the first race.
        not_held: why the last race could not be held, one sentence; empty when it was.
    """

    races: tuple[RaceOutcome, ...] = ()
    confirmations: tuple[RaceOutcome, ...] = ()
    ranking: RaceRanking | None = None
    not_held: str = ""
    winner_profile: LineProfile | None = None
    baseline_profile: LineProfile | None = None

    @property
    def outcomes(self) -> tuple[RaceOutcome, ...]:
        """All that was measured; the last of a candidate counts most."""
        return (*self.races, *self.confirmations)

    @property
    def leaders(self) -> tuple[CandidateId, ...]:
        """The winner, or the tie set, the smallest diff first."""
        if self.ranking is None or not self.ranking.winner:
            return ()
        return tuple(map(CandidateId, self.ranking.tie_set or (self.ranking.winner,)))


@dataclass(kw_only=True, slots=True)
class RunFindings:
    """Findings of a run so far, and the time of each phase.

    Attributes:
        races: whether equivalent candidates are raced.
        context: `None` until the baseline is known.
        finding: of the last race.
        comparison: of a campaign that the last race was, if it was one.
        timed: what the races time and why, as `RunResult.race` has it.
        hosts: other hosts that the run was made on.
        spent_ms: wall time by phase, and `waited`: while others had this machine to themselves.
    """

    run_id: str
    seed: int
    races: bool
    setup: Setup
    ledger: Ledger
    context: RunContext | None = None
    finding: RaceFinding = field(default_factory=RaceFinding)
    comparison: Comparison | None = None
    timed: Mapping[str, str] = field(default_factory=dict)
    hosts: tuple[HostUse, ...] = ()
    spent_ms: dict[str, float] = field(default_factory=dict)
    _since_ns: int = field(default_factory=monotonic_ns)
    _waits_since_ns: int = 0
    _waited_ns: int = 0

    @contextmanager
    def phase(self, name: str, detail: str = "") -> Iterator[None]:
        """Announce a phase; the time since the last one belongs to it, unless it is cut short."""
        self.ledger.announce(PhaseStarted(run_id=self.run_id, phase=name, detail=detail))
        yield
        self.lap(name)

    def lap(self, name: str) -> None:
        """Add the time since the last call, or since the start, to a phase, but for what was waited."""
        now_ns = monotonic_ns()
        self.waits(now=bool(self._waits_since_ns))
        waited_ns, self._waited_ns = self._waited_ns, 0
        self._add(name, now_ns - self._since_ns - waited_ns)
        if waited_ns:
            self._add("waited", waited_ns)
        self._since_ns = now_ns

    def waits(self, *, now: bool) -> None:
        """Note that the run waits for others on this machine from now on, or no longer."""
        now_ns = monotonic_ns()
        if self._waits_since_ns:
            self._waited_ns += now_ns - self._waits_since_ns
        self._waits_since_ns = now_ns if now else 0

    def _add(self, name: str, ns: int) -> None:
        self.spent_ms[name] = self.spent_ms.get(name, 0.0) + ns / 1e6
