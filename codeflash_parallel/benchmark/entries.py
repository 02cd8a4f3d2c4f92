"""The arms of races as the ranking sees them: each with its interval at the last look. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log1p

from codeflash_parallel.benchmark.decide import (
    Interval,
    Standing,
    beats,
    biased,
    interval,
    rounds_needed,
    slower_groups,
    speedup,
    unit_sd,
)
from codeflash_parallel.benchmark.plan import NULL, RacePlan
from codeflash_parallel.benchmark.raced import Raced, RaceOutcome
from codeflash_parallel.benchmark.suspicion import suspicion
from codeflash_parallel.model.result import Speedup

#: Nanoseconds in a second.
SECOND = 1e9


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One arm in one race: its interval at that race's last look."""

    id: str
    raced: Raced
    bound: Interval

    @property
    def standing(self) -> Standing:
        """How it stood at the last look that saw it."""
        return self.raced.standings.get(self.id, Standing.OPEN)

    @property
    def error(self) -> float:
        """The error that its own bounds may spend, each."""
        return self.raced.alpha / len(self.raced.candidates)

    @property
    def speedup(self) -> Speedup | None:
        """Its estimate and bounds; `None` with too few rounds."""
        return speedup(self.bound, self.raced.tracks[self.id].clock, self.raced.plan.stage)

    @property
    def doubt(self) -> str:
        """Why its gain is doubted, one clause; empty when it is not."""
        return suspicion(self.raced, self.id, self.bound)

    @property
    def times(self) -> str:
        """Its estimate for a sentence."""
        return f"{exp(self.bound.median):.2f}x"

    @property
    def slowed(self) -> str:
        """The groups of tests that it makes slower than allowed, by name; going by medians."""
        track, plan = self.raced.tracks[self.id], self.raced.plan
        return ", ".join(plan.groups[group].name for group in slower_groups(track, plan))

    @property
    def noise(self) -> str:
        """How noisy it was and what a gain of ten per cent would have needed, one clause."""
        raced = self.raced
        track = raced.tracks[self.id]
        if not track.total:
            return raced.stopped
        sd = unit_sd(track)
        needed_s = rounds_needed(track, raced.plan, self.error) * raced.round_ns / SECOND
        return (
            f"too noisy: rounds scatter by {100 * sd:.0f} %, a gain of 10 % would have needed about "
            f"{needed_s:.0f} s ({raced.stopped})"
        )

    @property
    def groups(self) -> tuple[tuple[str, Speedup], ...]:
        """The same by group of tests."""
        track, plan = self.raced.tracks[self.id], self.raced.plan
        bounds = [speedup(interval(v, self.error), track.clock, plan.stage) for v in track.groups]
        return tuple((g.name, s) for g, s in zip(plan.groups, bounds, strict=True) if s is not None)


def entries(outcomes: Sequence[RaceOutcome]) -> dict[str, Entry]:
    """Return the arms that were timed, by id, as the last race that had them saw them."""
    found = {}
    for raced in outcomes:
        if isinstance(raced, Raced):
            share = raced.alpha / max(1, len(raced.candidates))
            for arm in raced.candidates:
                if arm not in raced.out:
                    found[arm] = Entry(id=arm, raced=raced, bound=interval(raced.tracks[arm].total, share))
    return found


def beaten(leader: Entry, other: Entry, plan: RacePlan) -> bool:
    """Return whether the leader is surely faster; across races only the intervals can say so."""
    if leader.raced is other.raced:
        tracks = leader.raced.tracks
        return beats(tracks[leader.id], tracks[other.id], plan, leader.error)
    return leader.bound.low - other.bound.high > log1p(plan.indifference)


def is_void(confirmations: Sequence[RaceOutcome]) -> bool:
    """Return whether a second baseline came out different from the first."""
    return any(
        NULL in raced.tracks and biased(raced.tracks[NULL], raced.plan, raced.alpha)
        for raced in confirmations
        if isinstance(raced, Raced)
    )


def confirmed(confirmations: Sequence[RaceOutcome], plan: RacePlan) -> tuple[Entry, ...]:
    """Return the arms confirmed as faster, not doubted, and not to be told apart from the fastest of them."""
    goal = log1p(plan.min_speedup)
    sure = [
        entry
        for entry in entries(confirmations).values()
        if entry.standing in {Standing.FASTER, Standing.BEATEN} and entry.bound.low > goal and not entry.doubt
    ]
    if not sure:
        return ()
    leader = max(sure, key=lambda entry: entry.bound.median)
    return tuple(entry for entry in sure if not beaten(leader, entry, plan))
