"""Parts of a run that other hosts execute: checks of its candidates, and its races on one of them.

The submitting process makes the whole run: it takes the snapshot, finds duplicates, requests repairs and
refinements, and reports. What a host has found out about a candidate comes back as texts of the run's step
cache (`run_state`), and the run goes on as if it had been resumed. Verdicts travel in this way; times do not:
all that is compared in a race was measured on one host.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from codeflash_parallel.candidates.code_changes import Constant
from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.result.result_model import HostUse
from codeflash_parallel.run.check_phase.watched_functions import WatchedBaseline
from codeflash_parallel.run.ledger import CandidateEntry, RaceFinding, RunContext


class RunPart(StrEnum):
    """Part of a run that one process executes."""

    #: Everything.
    WHOLE = "whole"
    #: Checks of some candidates, for the process that submitted them.
    CHECKS = "checks"
    #: The races of candidates whose checks are in the step cache.
    RACE = "race"
    #: None: the host only says whether it could.
    PROBE = "probe"


@dataclass(frozen=True, kw_only=True, slots=True)
class PartRequest:
    """Part of a run that this process executes, and what others have found out for it.

    Attributes:
        before: races that the run has held before, on this host.
        callers: functions whose calls are timed, as an earlier request has found them out; put there where it
            is empty.
        constants: of all candidates of the run, as far as they are known: fresh inputs are made of them.
    """

    part: RunPart = RunPart.WHOLE
    before: RaceFinding = field(default_factory=RaceFinding)
    callers: list[WatchedBaseline | None] = field(default_factory=list)
    constants: tuple[Constant, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class RemoteRace:
    """Races that a host has held.

    Attributes:
        timed: what was timed and why, as `RunFindings.timed` has it.
        intervals: when, as `HostUse.timed` has it.
    """

    host: str
    finding: RaceFinding = field(default_factory=RaceFinding)
    timed: dict[str, str] = field(default_factory=dict)
    intervals: tuple[tuple[int, int], ...] = ()


class RemoteHosts(Protocol):
    """The hosts of one run."""

    def use_constants(self, constants: Sequence[Constant], /) -> None:
        """Have fresh inputs made of constants of candidates, on all hosts, besides those that were given."""
        ...

    @property
    def ahead(self) -> int:
        """Number of candidates that are prepared ahead of those that are checked."""
        ...

    async def check(self, entry: CandidateEntry, /) -> CheckOutcome | None:
        """Have a candidate checked; return why it cannot be judged, `None` when its steps are stored.

        Raises:
            EnvironmentFault: no host can check anything. Cancelling ends the check on its host.
        """
        ...

    async def race(self, entries: Sequence[CandidateEntry], before: RemoteRace | None, /) -> RemoteRace:
        """Have candidates raced on one host that does nothing else.

        Args:
            entries: all that have ever raced, and those that are new.
            before: the earlier races of the run. Another host cannot go on with their measurements: there all
                candidates race.

        Raises:
            EnvironmentFault: no host can hold a race. Cancelling ends the race on its host.
        """
        ...

    def uses(self) -> tuple[HostUse, ...]:
        """Return the hosts that have worked for the run, and what each of them did."""
        ...


class Cluster(Protocol):
    """Hosts of an engine."""

    def open_hosts(
        self, context: RunContext, *, wants_evidence: bool
    ) -> AbstractAsyncContextManager[RemoteHosts]:
        """Open the hosts for a run; leaving the block ends what runs there.

        Args:
            wants_evidence: a repairer is asked, so that checks look for all failures.
        """
        ...
