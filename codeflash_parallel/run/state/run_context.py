"""What one run knows and uses, and the calls that tell its observers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from codeflash_parallel.baseline.step_reporter import StepReporter
from codeflash_parallel.candidates.functions import Target
from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.check_plan import CheckPlan
from codeflash_parallel.check.session.runner_session import RunnerConfig
from codeflash_parallel.config.settings import Settings
from codeflash_parallel.process.host_lock import HostLock
from codeflash_parallel.result.candidate.candidate_model import Candidate
from codeflash_parallel.result.events import Event, Observer
from codeflash_parallel.result.runtime_protocols import ProcessLimits, ProcessRunner
from codeflash_parallel.run.store.step_cache import StepCache
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
