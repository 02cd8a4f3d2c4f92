"""What a race hands back: everything it measured, or why it could not be held."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from codeflash_parallel.benchmark.decide import Standing
from codeflash_parallel.benchmark.plan import RacePlan
from codeflash_parallel.benchmark.samples import Round, Track
from codeflash_parallel.model.outcome import Code, Status


@dataclass(frozen=True, kw_only=True, slots=True)
class Out:
    """Why an arm left the race for a reason other than its speed."""

    status: Status
    code: Code
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Raced:
    """Everything that a race measured.

    Attributes:
        candidates: ids, in the order in which they were handed in.
        rounds: raw material; all figures can be computed from it again.
        tracks: by arm, the null arm included; an arm that was dropped has fewer rounds.
        standings: by candidate, at the look that dropped it or at the last one.
        out: arms that left for a reason other than their speed.
        alpha: error that the last look could spend.
        wall_ns: of the whole race, process starts included.
        round_ns: median wall time of a round.
        stopped: why it ended, one sentence.
        notes: what a person should know.
    """

    plan: RacePlan = field(repr=False)
    candidates: tuple[str, ...]
    rounds: tuple[Round, ...] = field(repr=False)
    tracks: Mapping[str, Track] = field(repr=False)
    standings: Mapping[str, Standing]
    out: Mapping[str, Out]
    alpha: float
    wall_ns: int
    round_ns: int
    stopped: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class RaceFailed:
    """The race could not be held: the machinery or the baseline failed, no candidate is to blame."""

    candidates: tuple[str, ...]
    reason: str


RaceOutcome = Raced | RaceFailed
