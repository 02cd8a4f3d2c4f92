"""What one run has found out so far, and where its time went."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from codeflash_parallel.result.events import Event, PhaseStarted, Stage
from codeflash_parallel.run.race_phase.race_coordinator import RaceFinding
from codeflash_parallel.run.results.phase_clock import PhaseClock
from codeflash_parallel.run.setup.evaluator_setup import Setup
from codeflash_parallel.run.state.ledger import CandidateEntry, Ledger
from codeflash_parallel.run.state.run_context import RunContext


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
