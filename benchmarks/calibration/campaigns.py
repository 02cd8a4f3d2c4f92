"""Whole campaigns drawn from recorded rounds of identical arms. Pure.

A campaign is a race, its confirmations and the ranking, decided by the very modules that decide live. Only
the rounds come from the record: layouts are drawn with replacement, as a whole, because the rounds of a
layout share its accidents; who plays which candidate is drawn anew in every layout, because the arms are
identical; a candidate's true speedup is added to its log-ratios. Groups of tests are kept apart, and
confirmations have been recorded as such: two rounds, new processes.

Source: the bootstrap by blocks (Künsch 1989), with layouts as blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import log
from random import Random

from calibration.traces import Layout
from codeflash_parallel.race.measurement import DecidingClock, counting
from codeflash_parallel.race.plan import NULL, RacePlan, RaceStage
from codeflash_parallel.race.race_result import Raced, RaceOutcome, RaceRanking
from codeflash_parallel.race.ranking.arm_comparison import confirmation_of, contenders, left_of, race_of
from codeflash_parallel.race.ranking.candidate_ranking import rank
from codeflash_parallel.race.statistics.log_ratios import ArmLogRatios, claimed, track
from codeflash_parallel.race.statistics.sequential_test import InterimState, look


@dataclass(frozen=True, kw_only=True, slots=True)
class Scenario:
    """The true speedups of a campaign's candidates."""

    name: str
    gains: tuple[float, ...]

    @property
    def arms(self) -> dict[str, float]:
        """True speedups by id."""
        return {f"arm{number}": gain for number, gain in enumerate(self.gains)}


SCENARIOS = (
    Scenario(name="8 identical", gains=(1.0,) * 8),
    Scenario(name="1.05 alone", gains=(1.05,)),
    Scenario(name="1.03 alone", gains=(1.03,)),
    Scenario(name="1.05 among 8", gains=(1.05, *(1.0,) * 7)),
    Scenario(name="1.03 among 8", gains=(1.03, *(1.0,) * 7)),
    Scenario(name="all 8 at 1.05", gains=(1.05,) * 8),
    Scenario(name="1.00 to 1.07", gains=tuple(1 + step / 100 for step in range(8))),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """The bounds that a confirmation gave for a true speedup."""

    gain: float
    estimate: float
    low: float
    high: float

    @property
    def is_covered(self) -> bool:
        """Whether they hold it."""
        return self.low <= self.gain <= self.high


@dataclass(frozen=True, kw_only=True, slots=True)
class Campaign:
    """What came of one campaign.

    Attributes:
        gains: true speedups of the candidates.
        named: true speedups of those that were called winners, the one called the winner first.
        claims: of every confirmed candidate that has bounds.
        rounds: of the race and of all its confirmations.
        wall_s: seconds, process starts included.
    """

    verdict: str
    gains: tuple[float, ...]
    named: tuple[float, ...]
    claims: tuple[Claim, ...]
    rounds: int
    wall_s: float

    @property
    def is_false(self) -> bool:
        """Whether somebody was named who is not faster than the baseline."""
        return any(gain <= 1.0 for gain in self.named)

    @property
    def is_found(self) -> bool:
        """Whether the fastest, or one as fast, was named."""
        return max(self.gains) in self.named

    @property
    def is_close(self) -> bool:
        """Whether the one called the winner is within 2 % of the fastest."""
        return self.named[0] * 1.02 >= max(self.gains)

    def to_json(self) -> dict[str, object]:
        """Return it for a file."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Campaign:
        """Return what `to_json` gave."""
        values = dict(data)
        claims = tuple(Claim(**claim) for claim in values.pop("claims"))
        lists = {name: tuple(values.pop(name)) for name in ("gains", "named")}
        return cls(**values, **lists, claims=claims)


@dataclass(frozen=True, kw_only=True, slots=True)
class Stretch:
    """What was recorded of one layout.

    Attributes:
        tracks: by arm, of the rounds that count.
        counted: how many those are.
        rounds: how many there were.
        wall_s: of all of them, the start of their processes included.
    """

    tracks: Mapping[str, ArmLogRatios]
    counted: int
    rounds: int
    wall_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Pool:
    """What campaigns of one cell are drawn from."""

    plan: RacePlan
    race: Sequence[Stretch]
    confirmation: Sequence[Stretch]

    @classmethod
    def of(cls, race: Sequence[Layout], confirmation: Sequence[Layout]) -> Pool:
        """Make a pool from recorded layouts."""
        plan = race[0].raced.plan
        return cls(plan=plan, race=stretches(race), confirmation=stretches(confirmation))


def stretches(layouts: Sequence[Layout]) -> list[Stretch]:
    """Return the tracks of layouts; what a channel costs is known from all of them together, as in a race."""
    plan, arms = layouts[0].raced.plan, layouts[0].raced.candidates
    rounds = [round_ for layout in layouts for round_ in layout.raced.rounds]
    whole = {arm: track(rounds, arm, plan) for arm in arms}
    used = {id(round_) for round_ in counting([r for r in rounds if not r.void], DecidingClock.CPU)}
    found, start = [], 0
    for layout in layouts:
        counted = sum(id(round_) in used for round_ in layout.raced.rounds)
        end = start + counted
        found.append(
            Stretch(
                tracks={arm: _cut(whole[arm], start, end) for arm in arms},
                counted=counted,
                rounds=len(layout.raced.rounds),
                wall_s=layout.wall_s,
            )
        )
        start = end
    return found


def _cut(whole: ArmLogRatios, start: int, end: int) -> ArmLogRatios:
    groups = tuple(values[start:end] for values in whole.groups)
    known, unseen = whole.known[start:end], whole.unseen[start:end]
    return replace(whole, total=whole.total[start:end], groups=groups, known=known, unseen=unseen)


def campaign(pool: Pool, gains: Mapping[str, float], random: Random) -> Campaign:
    """Hold one campaign."""
    races: list[RaceOutcome] = [hold(pool.race, gains, race_of(pool.plan), random)]
    plan = pool.plan
    confirmations: list[RaceOutcome] = []
    while ids := contenders(races, confirmations, plan, limit=len(gains)):
        again = confirmation_of(races, confirmations, left_of(plan, [*races, *confirmations]), ids)
        chosen = {name: gains[name] for name in ids}
        confirmations.append(hold(pool.confirmation, chosen, again, random))
    ranking = rank(races, confirmations, plan, {})
    return concluded(gains, ranking, [*races, *confirmations])


def concluded(gains: Mapping[str, float], ranking: RaceRanking, outcomes: Sequence[RaceOutcome]) -> Campaign:
    """Return what came of a campaign, drawn or live."""
    raced = [outcome for outcome in outcomes if isinstance(outcome, Raced)]
    others = [name for name in ranking.tie_set if name != ranking.winner]
    return Campaign(
        verdict=str(ranking.verdict),
        gains=tuple(gains.values()),
        named=tuple(gains[name] for name in (ranking.winner, *others) if name),
        claims=tuple(claims(gains, ranking)),
        rounds=sum(len(outcome.rounds) or rounds_of(outcome) for outcome in raced),
        wall_s=sum(outcome.wall_ns for outcome in raced) / 1e9,
    )


def claims(gains: Mapping[str, float], ranking: RaceRanking) -> Iterator[Claim]:
    """Yield the bounds of confirmed candidates; figures of the race itself claim nothing."""
    for ranked in ranking.candidates:
        found = ranked.speedup
        if found is not None and found.stage == RaceStage.CONFIRMATION:
            yield Claim(gain=gains[ranked.id], estimate=found.estimate, low=found.low, high=found.high)


def rounds_of(raced: Raced) -> int:
    """Return how many rounds a drawn race had."""
    return max((len(track.total) for track in raced.tracks.values()), default=0)


def hold(layouts: Sequence[Stretch], gains: Mapping[str, float], plan: RacePlan, random: Random) -> Raced:
    """Draw one race or confirmation, with a look after every round."""
    drawn = _Drawn(layouts, gains, plan)
    state = InterimState(candidates=tuple(gains))
    while not state.decided and drawn.count < plan.max_rounds and drawn.wall_ns < plan.budget_ns:
        for _ in drawn.layout(state.living, random):
            state = look(state, drawn.tracks(state.living), plan)
            if state.decided or drawn.count >= plan.max_rounds:
                break
    return drawn.raced(state)


class _Drawn:
    """The rounds of one race that have been drawn so far."""

    def __init__(self, layouts: Sequence[Stretch], gains: Mapping[str, float], plan: RacePlan) -> None:
        self._layouts, self._gains, self._plan = layouts, gains, plan
        groups = len(plan.groups)
        null = (NULL,) if plan.stage is RaceStage.CONFIRMATION else ()
        self._tracks = {
            name: ArmLogRatios(total=(), groups=((),) * groups, clock=DecidingClock.CPU)
            for name in (*gains, *null)
        }
        self._null = null
        self.count = 0
        self.wall_ns = 0.0

    def layout(self, living: Sequence[str], random: Random) -> Iterator[int]:
        """Draw a layout and yield after each of its rounds."""
        cast = self._cast([*self._null, *living], random)
        first = next(iter(cast.values()))[0]
        counted = min(layout.counted for layout, _ in cast.values())
        # A recorded layout has more arms than are still racing; each costs about the same.
        share = (1 + len(cast)) / (1 + len(first.tracks))
        round_ns = 1e9 * first.wall_s * share / first.rounds
        self.wall_ns += (first.rounds - counted) * round_ns
        for number in range(counted):
            for name, (layout, arm) in cast.items():
                gain = log(self._gains.get(name, 1.0))
                self._tracks[name] = longer(self._tracks[name], layout.tracks[arm], number, gain)
            self.count += 1
            self.wall_ns += round_ns
            yield number

    def _cast(self, names: Sequence[str], random: Random) -> dict[str, tuple[Stretch, str]]:
        """Draw who plays whom; more candidates than a layout has arms take arms of another one."""
        cast: dict[str, tuple[Stretch, str]] = {}
        free: list[tuple[Stretch, str]] = []
        for name in names:
            if not free:
                layout = random.choice(self._layouts)
                arms = random.sample([*layout.tracks], len(layout.tracks))
                free = [(layout, arm) for arm in arms]
            cast[name] = free.pop()
        return cast

    def tracks(self, living: Sequence[str]) -> dict[str, ArmLogRatios]:
        return {name: claimed(self._tracks, name, self._plan) for name in living}

    def raced(self, state: InterimState) -> Raced:
        return Raced(
            plan=self._plan,
            candidates=tuple(self._gains),
            rounds=(),
            tracks=self._tracks,
            looks=state,
            out={},
            wall_ns=int(self.wall_ns),
            round_ns=int(self.wall_ns / max(1, self.count)),
            stopped=f"drawn: {self.count} rounds",
        )


def longer(track: ArmLogRatios, recorded: ArmLogRatios, number: int, gain: float) -> ArmLogRatios:
    """Return a track with one recorded round more, in which the arm was faster by a log-ratio."""
    return replace(
        track,
        total=(*track.total, recorded.total[number] + gain),
        groups=tuple(
            (*values, more[number] + gain) for values, more in zip(track.groups, recorded.groups, strict=True)
        ),
        clock=recorded.clock,
        known=(*track.known, *(value + gain for value in recorded.known[number : number + 1])),
        unseen=(*track.unseen, *(value + gain for value in recorded.unseen[number : number + 1])),
    )
