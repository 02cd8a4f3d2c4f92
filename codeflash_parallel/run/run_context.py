"""Context of a run whose baseline is known, and findings of the run so far."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic_ns

from codeflash_parallel.baseline.step_reporter import StepReporter
from codeflash_parallel.candidates.functions import Target
from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.candidate_changes import Changes
from codeflash_parallel.check.check_plan import CheckPlan
from codeflash_parallel.check.session.runner_session import RunnerConfig
from codeflash_parallel.config.settings import Settings
from codeflash_parallel.process.host_lock import HostLock
from codeflash_parallel.race.race_result import RaceOutcome, RaceRanking
from codeflash_parallel.result.candidate_model import Candidate, CandidateId
from codeflash_parallel.result.events import PhaseStarted
from codeflash_parallel.result.result_model import LineProfile
from codeflash_parallel.run.ledger import Ledger
from codeflash_parallel.run.setup.evaluator_setup import Setup
from codeflash_parallel.run.step_cache import StepCache
from codeflash_parallel.warm.server_fleet import Fleet
from codeflash_parallel.workspace.slot_pool import SlotPool
from codeflash_parallel.workspace.snapshot.mirror import Mirror, Snapshot


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
        timed: what the races time and why, as `RunResult.race` has it.
        spent_ms: wall time by phase.
    """

    run_id: str
    seed: int
    races: bool
    setup: Setup
    ledger: Ledger
    context: RunContext | None = None
    finding: RaceFinding = field(default_factory=RaceFinding)
    timed: Mapping[str, str] = field(default_factory=dict)
    spent_ms: dict[str, float] = field(default_factory=dict)
    _since_ns: int = field(default_factory=monotonic_ns)

    @contextmanager
    def phase(self, name: str, detail: str = "") -> Iterator[None]:
        """Announce a phase; the time since the last one belongs to it, unless it is cut short."""
        self.ledger.announce(PhaseStarted(run_id=self.run_id, phase=name, detail=detail))
        yield
        self.lap(name)

    def lap(self, name: str) -> None:
        """Add the time since the last call, or since the start, to a phase."""
        now_ns = monotonic_ns()
        self.spent_ms[name] = self.spent_ms.get(name, 0.0) + (now_ns - self._since_ns) / 1e6
        self._since_ns = now_ns
