"""The result of a race: everything it measured, or the reason why it could not be held."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from codeflash_parallel.race.measurement import Round
from codeflash_parallel.race.plan import RacePlan
from codeflash_parallel.race.statistics.log_ratios import ArmLogRatios
from codeflash_parallel.race.statistics.sequential_test import ArmStanding, InterimState, error_of
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code


@dataclass(frozen=True, kw_only=True, slots=True)
class Disqualification:
    """Why an arm left the race for a reason other than its speed."""

    status: CandidateStatus
    code: Code
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Raced:
    """Everything that a race measured.

    Attributes:
        candidates: ids, in the order in which they were handed in.
        rounds: raw material; all figures can be computed from it again.
        tracks: by arm, the null arm included; an arm that was dropped has fewer rounds.
        looks: the state after the last look.
        out: arms that left for a reason other than their speed.
        wall_ns: of the whole race, process starts included.
        round_ns: median wall time of a round.
        needed_ns: budget that this race alone would have needed, about; 0: its own was not too small.
        stopped: why it ended, one sentence.
        notes: what a person should know.
    """

    plan: RacePlan = field(repr=False)
    candidates: tuple[str, ...]
    rounds: tuple[Round, ...] = field(repr=False)
    tracks: Mapping[str, ArmLogRatios] = field(repr=False)
    looks: InterimState
    out: Mapping[str, Disqualification]
    wall_ns: int
    round_ns: int
    stopped: str
    needed_ns: int = 0
    notes: tuple[str, ...] = ()

    @property
    def error(self) -> float:
        """The error that each bound of one candidate may spend."""
        return error_of(self.plan, max(1, len(self.candidates)))

    def standing(self, candidate: str) -> ArmStanding:
        """Return how a candidate stood at the look that dropped it, or at the last one."""
        return self.looks.standing(candidate)


@dataclass(frozen=True, kw_only=True, slots=True)
class RaceFailed:
    """The race could not be held: the machinery or the baseline failed, no candidate is to blame."""

    candidates: tuple[str, ...]
    reason: str
    code: Code = Code.INFRA_SLOT


RaceOutcome = Raced | RaceFailed
