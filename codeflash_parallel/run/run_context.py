"""What one run knows and uses, and the calls that tell its observers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic_ns

from codeflash_parallel.baseline.preflight.step_reporter import StepReporter
from codeflash_parallel.candidates.target import Target
from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.check_plan import CheckPlan
from codeflash_parallel.check.session.runner_session import RunnerConfig
from codeflash_parallel.config.settings import Settings
from codeflash_parallel.process.host_lock import HostLock
from codeflash_parallel.race.race_result import RaceOutcome
from codeflash_parallel.race.ranking.ranking_result import RaceRanking
from codeflash_parallel.result.candidate.candidate_model import Candidate, CandidateId
from codeflash_parallel.result.candidate.lifecycle import Stage
from codeflash_parallel.result.events import Event, Observer, PhaseStarted
from codeflash_parallel.result.line_profile import LineProfile
from codeflash_parallel.result.runtime_protocols import ProcessLimits, ProcessRunner
from codeflash_parallel.run.ledger import CandidateEntry, Ledger
from codeflash_parallel.run.setup.evaluator_setup import Setup
from codeflash_parallel.run.step_cache import StepCache
from codeflash_parallel.warm.server_fleet import Fleet
from codeflash_parallel.workspace.slot_pool import SlotPool
from codeflash_parallel.workspace.snapshot.mirror import Mirror, Snapshot


@dataclass(frozen=True, kw_only=True, slots=True)
class RunContext:
    """The frozen surroundings of a run.

    Attributes:
        plan: how candidates are checked; a check fills in killers and xdist workers.
        fleet: the slots' warm servers.
        free_bytes: what all checks and servers together may hold.
        cores: cores' worth of CPU time that may be used.
        cache: results of the run's steps.
        quiet: keeps checks, of other processes too, away from what is timed.
        steps: tells what is done at the moment.
    """

    run_id: str
    run_dir: Path
    settings: Settings
    runner: ProcessRunner
    mirror: Mirror
    snapshot: Snapshot
    pool: SlotPool
    interpreter: Path
    targets: tuple[Target, ...]
    plan: CheckPlan
    fleet: Fleet
    free_bytes: int
    cores: float
    seed: int
    cache: StepCache
    quiet: HostLock
    steps: StepReporter

    @property
    def guest(self) -> RunnerConfig:
        """Return what all guests of the run have in common."""
        return self.plan.guest

    @property
    def baseline(self) -> Baseline:
        """Return what candidates are held against."""
        return self.plan.baseline

    @property
    def limits(self) -> ProcessLimits:
        """Return what one check may use."""
        return self.plan.limits

    def sources_of(self, candidate: Candidate) -> tuple[tuple[str, str], ...]:
        """Return the text of each target's file, with the candidate applied where it changes it."""
        edited = {edit.path: edit.new for edit in candidate.edits}
        paths = sorted({target.path for target in self.targets} | edited.keys())
        texts = [(path, edited.get(path, self.mirror.read(self.snapshot, path))) for path in paths]
        return tuple((path, text.decode("utf-8", "replace")) for path, text in texts if text is not None)


@dataclass(slots=True)
class EventAnnouncer:
    """Passes events to observers in order; one that raises is dropped and said so."""

    observers: list[Observer]
    on_dropped: Callable[[str], None] = field(default=lambda _message: None)

    def __call__(self, event: Event) -> None:
        """Pass one event on."""
        for observer in tuple(self.observers):
            try:
                observer(event)
            except Exception as error:  # noqa: BLE001 - an observer is foreign code and never changes a verdict
                self.observers.remove(observer)
                self.on_dropped(f"An observer was dropped: it raised {type(error).__name__}: {error}.")

    @classmethod
    def of(cls, observers: Sequence[Observer]) -> EventAnnouncer:
        """Make one for some observers."""
        return cls(list(observers))


@dataclass(frozen=True, kw_only=True, slots=True)
class RaceFinding:
    """What the races of a run have found so far.

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
        """Return all that was measured, what counts most last."""
        return (*self.races, *self.confirmations)

    @property
    def leaders(self) -> tuple[CandidateId, ...]:
        """Return the winner, or the tie set, the smallest diff first."""
        if self.ranking is None or not self.ranking.winner:
            return ()
        return tuple(map(CandidateId, self.ranking.tie_set or (self.ranking.winner,)))


@dataclass(slots=True)
class PhaseClock:
    """Adds up where the run's time went."""

    ms: dict[str, float] = field(default_factory=dict)
    _since_ns: int = field(default_factory=monotonic_ns)

    def lap(self, name: str) -> None:
        """Say what the time since the last call, or since the start, was spent on."""
        now_ns = monotonic_ns()
        self.ms[name] = self.ms.get(name, 0.0) + (now_ns - self._since_ns) / 1e6
        self._since_ns = now_ns


@dataclass(kw_only=True, slots=True)
class RunFindings:
    """What `results` are made of.

    Attributes:
        announce: passes events to observers.
        races: whether equivalent candidates are raced.
        context: `None` until the baseline is known.
        finding: of the last race.
        timed: what the races time and why, as `RunResult.race` has it.
    """

    run_id: str
    setup: Setup
    ledger: Ledger
    announce: Callable[[Event], None]
    races: bool
    seed: int
    clock: PhaseClock = field(default_factory=PhaseClock)
    context: RunContext | None = None
    finding: RaceFinding = field(default_factory=RaceFinding)
    timed: Mapping[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """Return where everything about the run is kept."""
        return self.setup.run_dir(self.run_id)

    @contextmanager
    def phase(self, name: str, detail: str = "") -> Iterator[None]:
        """Announce a phase; the time since the last one belongs to it, unless it is cut short."""
        self.announce(PhaseStarted(run_id=self.run_id, phase=name, detail=detail))
        yield
        self.clock.lap(name)

    def newly_passed(self) -> list[CandidateEntry]:
        """Return the candidates that are equivalent and have not raced yet."""
        return [entry for entry in self.ledger if entry.stage is Stage.PASSED]
