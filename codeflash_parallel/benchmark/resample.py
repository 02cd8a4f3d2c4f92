"""Whole campaigns drawn from recorded rounds of identical arms. Pure.

A campaign is a race, its confirmations and the ranking, decided by the very modules that decide live. Only
the rounds come from the record. Layouts are drawn with replacement, as a whole, because the rounds of a
layout share its accidents of addresses; a confirmation takes one round of each. As the arms are identical,
who plays the baseline and who plays which candidate is drawn anew in every layout. A candidate that is to be
faster gets its true log-ratio added.

Source: the bootstrap by blocks (Künsch 1989), with layouts as blocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import comb, log
from random import Random

from codeflash_parallel.benchmark.attempts import confirmation_of, contenders, left_of, race_of
from codeflash_parallel.benchmark.decide import Looks, look
from codeflash_parallel.benchmark.plan import BASELINE, NULL, RacePlan, RaceStage
from codeflash_parallel.benchmark.raced import Raced, RaceOutcome
from codeflash_parallel.benchmark.rank import rank
from codeflash_parallel.benchmark.ranking import Ranking
from codeflash_parallel.benchmark.samples import Clock, Round
from codeflash_parallel.benchmark.tracks import Track, track

#: Halvings of [0, 1]: more than a double can tell apart.
BISECTIONS = 60

#: Chance that a bound on a rate errs.
BOUND_ALPHA = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """The rounds of identical arms between two starts of their processes.

    Attributes:
        rows: by round, the log-ratio of every arm to the first, which is 0: above zero where it was faster.
        start_ns: wall time that the start of all processes took.
        round_ns: wall time of one round, mean.
    """

    rows: tuple[tuple[float, ...], ...]
    start_ns: float
    round_ns: float

    @classmethod
    def of(cls, rounds: Sequence[Round], arms: Sequence[str], plan: RacePlan, walls_ns: Walls) -> Layout:
        """Make one of the rounds of arms that nothing was lost of; void rounds are left out."""
        totals = [track(rounds, arm, plan, Clock.CPU).total for arm in arms]
        rows = tuple((0.0, *row) for row in zip(*totals, strict=True))
        return cls(rows=rows, start_ns=walls_ns.start, round_ns=walls_ns.rounds / len(rounds))

    def wall_ns(self, arms: int, rounds: int) -> float:
        """Return about how long so many rounds of fewer arms take; each costs about the same."""
        share = arms / len(self.rows[0])
        return share * (self.start_ns + rounds * self.round_ns)


@dataclass(frozen=True, kw_only=True, slots=True)
class Walls:
    """Wall nanoseconds of a layout: of the start of its processes, and of all its rounds."""

    start: float
    rounds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Campaign:
    """What came of one campaign, and how long it would have taken."""

    ranking: Ranking
    rounds: int
    wall_ns: float


def campaign(
    layouts: Sequence[Layout], gains: Mapping[str, float], plan: RacePlan, random: Random
) -> Campaign:
    """Hold one campaign.

    Args:
        layouts: to draw from.
        gains: true speedups by candidate; with the baseline and a null arm no more than a layout has arms.
        plan: its budget is that of the race and its confirmations.
        random: source of all draws.
    """
    races: list[RaceOutcome] = [held(layouts, gains, race_of(plan), random)]
    confirmations: list[RaceOutcome] = []
    while ids := contenders(races, confirmations, plan, limit=len(gains)):
        chosen = {name: gains[name] for name in ids}
        again = confirmation_of(races, confirmations, left_of(plan, [*races, *confirmations]), ids)
        confirmations.append(held(layouts, chosen, again, random))
    all_raced = [outcome for outcome in (*races, *confirmations) if isinstance(outcome, Raced)]
    return Campaign(
        ranking=rank(races, confirmations, plan, {}),
        rounds=sum(_rounds_of(raced) for raced in all_raced),
        wall_ns=sum(raced.wall_ns for raced in all_raced),
    )


def held(layouts: Sequence[Layout], gains: Mapping[str, float], plan: RacePlan, random: Random) -> Raced:
    """Draw one race or confirmation, with a look after every round."""
    drawn = _Drawn(gains, plan)
    state = Looks(candidates=tuple(gains))
    while not state.decided and drawn.count < plan.max_rounds and drawn.wall_ns < plan.budget_ns:
        state = drawn.layout(random.choice(layouts), state, random)
    return drawn.raced(state)


class _Drawn:
    """The rounds of one race that have been drawn so far."""

    def __init__(self, gains: Mapping[str, float], plan: RacePlan) -> None:
        self.count = 0
        self.wall_ns = 0.0
        self._plan = plan
        self._null = (NULL,) if plan.stage is RaceStage.CONFIRMATION else ()
        self._gains = {name: log(gain) for name, gain in gains.items()} | dict.fromkeys(self._null, 0.0)
        self._values: dict[str, list[float]] = {name: [] for name in self._gains}

    def layout(self, layout: Layout, state: Looks, random: Random) -> Looks:
        """Play a layout with those who live until it is decided; return the state after its last look."""
        names = (BASELINE, *self._null, *state.living)
        cast = dict(zip(names, random.sample(range(len(layout.rows[0])), len(names)), strict=True))
        begun = self.count
        for row in islice(_rows(layout, self._plan, random), self._plan.max_rounds - begun):
            for name in names[1:]:
                self._values[name].append(row[cast[name]] - row[cast[BASELINE]] + self._gains[name])
            self.count += 1
            state = look(state, {name: self._track(name) for name in state.living}, self._plan)
            if state.decided:
                break
        self.wall_ns += layout.wall_ns(len(names), self.count - begun)
        return state

    def _track(self, name: str) -> Track:
        values = tuple(self._values[name])
        return Track(total=values, groups=(values,), clock=Clock.CPU)

    def raced(self, state: Looks) -> Raced:
        return Raced(
            plan=self._plan,
            candidates=state.candidates,
            rounds=(),
            tracks={name: self._track(name) for name in self._values},
            looks=state,
            out={},
            wall_ns=round(self.wall_ns),
            round_ns=round(self.wall_ns / max(1, self.count)),
            stopped=f"drawn: {self.count} rounds",
        )


def _rows(layout: Layout, plan: RacePlan, random: Random) -> list[tuple[float, ...]]:
    """Return as many of a layout's rounds as the plan has in one, in the order of the record."""
    chosen = random.sample(range(len(layout.rows)), min(plan.layout_rounds, len(layout.rows)))
    return [layout.rows[number] for number in sorted(chosen)]


def _rounds_of(raced: Raced) -> int:
    return max(len(found.total) for found in raced.tracks.values())


def most(hits: int, tries: int) -> float:
    """Return the largest chance at which no more than `hits` of `tries` would come with a chance of 5 %.

    The one-sided bound of Clopper and Pearson (1934); without a hit about three over `tries`.
    """
    low, high = hits / tries, 1.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if _up_to(hits, tries, middle) > BOUND_ALPHA else (low, middle)
    return high


def _up_to(hits: int, tries: int, chance: float) -> float:
    return sum(comb(tries, k) * chance**k * (1 - chance) ** (tries - k) for k in range(hits + 1))
