"""How fit a machine is for races, from rounds of identical arms. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from statistics import median

from codeflash_parallel.benchmark.noise import rounds_needed, unit_sd
from codeflash_parallel.benchmark.plan import BASELINE, RacePlan
from codeflash_parallel.benchmark.resample import Campaign, Layout, campaign, most
from codeflash_parallel.benchmark.samples import BlockKind, Clock, Round, blocks_of
from codeflash_parallel.benchmark.tracks import track
from codeflash_parallel.model.outcome import Verdict

#: Identical candidates of a resampled race.
CANDIDATES = 3

#: Processes that are recorded together: the candidates, the baseline, and the null arm of a confirmation.
ARMS = CANDIDATES + 2

#: True differences for which the seconds are told, as fractions.
GAINS = (0.02, 0.05, 0.10)

#: Rounds of a confirmation that is not extended; each has processes of its own.
CONFIRMATION_ROUNDS = 12

#: Less than this share found: the seconds are an estimate of what a longer race would need.
FOUND_SHARE = 0.5

#: Nanoseconds in a second.
SECOND = 1e9

#: Gives something for every campaign that is to be drawn.
Tries = Callable[[], Iterable[object]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Recorded:
    """What was recorded of one workload.

    Attributes:
        work: what was timed, a few words.
        layouts: for drawing campaigns.
        rounds: of all layouts.
        seconds: that it took.
    """

    work: str
    plan: RacePlan = field(repr=False)
    arms: tuple[str, ...]
    layouts: tuple[Layout, ...] = field(repr=False)
    rounds: tuple[Round, ...] = field(repr=False)
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Needed:
    """What it takes to find a true difference.

    Attributes:
        gain: as a fraction.
        found: campaigns that named the faster candidate.
        campaigns: all.
        seconds: median of those that did; where few did, an estimate of what would be needed; `None` where
            the gain is not above the smallest claim.
    """

    gain: float
    found: int
    campaigns: int
    seconds: float | None

    @property
    def is_usual(self) -> bool:
        """Whether a race finds it more often than not."""
        return self.campaigns > 0 and self.found >= FOUND_SHARE * self.campaigns


@dataclass(frozen=True, kw_only=True, slots=True)
class Fitness:
    """What one workload tells about the machine.

    Attributes:
        unit_sd: spread of one round's log-ratio of identical arms.
        core_asymmetry: how much slower the slowest core is than the fastest, as a fraction; 0 with one core.
        wall_per_cpu: wall time of a block over its CPU time, median.
        campaigns: resampled races of identical candidates.
        false_wins: how many of them named a winner.
        false_bound: 95 % upper bound of that rate.
    """

    work: str
    rounds: int
    void: int
    seconds: float
    unit_sd: float
    core_asymmetry: float
    wall_per_cpu: float
    campaigns: int
    false_wins: int
    false_bound: float
    needed: tuple[Needed, ...]


def fitness(recorded: Recorded, same: Tries, each: Tries, random: Random) -> Fitness:
    """Return what a record tells.

    Args:
        recorded: of one workload.
        same: campaigns of identical candidates.
        each: campaigns of each gain.
        random: source of all draws.
    """
    identical = _campaigns(recorded, dict.fromkeys(recorded.arms[:CANDIDATES], 1.0), same, random)
    false_wins = sum(_has_winner(found) for found in identical)
    return Fitness(
        work=recorded.work,
        rounds=len(recorded.rounds),
        void=sum(bool(round_.void) for round_ in recorded.rounds),
        seconds=recorded.seconds,
        unit_sd=_sd(recorded),
        core_asymmetry=core_asymmetry(recorded.rounds),
        wall_per_cpu=wall_per_cpu(recorded.rounds),
        campaigns=len(identical),
        false_wins=false_wins,
        false_bound=most(false_wins, len(identical)),
        needed=tuple(_needed(recorded, gain, each, random) for gain in GAINS),
    )


def _campaigns(
    recorded: Recorded, gains: Mapping[str, float], tries: Tries, random: Random
) -> list[Campaign]:
    return [campaign(recorded.layouts, gains, recorded.plan, random) for _ in tries()]


def _has_winner(found: Campaign) -> bool:
    return found.ranking.verdict in {Verdict.WINNER, Verdict.TIE}


def _sd(recorded: Recorded) -> float:
    return median(unit_sd(track(recorded.rounds, arm, recorded.plan, Clock.CPU)) for arm in recorded.arms)


def _needed(recorded: Recorded, gain: float, tries: Tries, random: Random) -> Needed:
    if gain <= recorded.plan.min_speedup:
        return Needed(gain=gain, found=0, campaigns=0, seconds=None)
    tried = _campaigns(recorded, {"faster": 1 + gain}, tries, random)
    walls = [found.wall_ns for found in tried if _has_winner(found)]
    usual = len(walls) >= FOUND_SHARE * len(tried)
    wall_ns = median(walls) if usual else _longer_ns(recorded, gain, tried)
    return Needed(gain=gain, found=len(walls), campaigns=len(tried), seconds=wall_ns / SECOND)


def _longer_ns(recorded: Recorded, gain: float, tried: Sequence[Campaign]) -> float:
    """Return about what a race would need that most of those tried did not have."""
    return max(_estimate_ns(recorded, gain), median(found.wall_ns for found in tried))


def _estimate_ns(recorded: Recorded, gain: float) -> float:
    """Return how long a race and a confirmation of one candidate would need by the spread of the rounds."""
    rounds = rounds_needed(_sd(recorded), gain, recorded.plan, 1)
    starts = rounds / recorded.plan.layout_rounds + max(rounds, CONFIRMATION_ROUNDS)
    layout = recorded.layouts[0]
    per_round = layout.wall_ns(2, rounds + max(rounds, CONFIRMATION_ROUNDS)) - layout.wall_ns(2, 0)
    return per_round + starts * layout.wall_ns(2, 0)


def core_asymmetry(rounds: Sequence[Round]) -> float:
    """Return how much slower the baseline is on the slowest core than on the fastest, by medians."""
    costs: dict[int, list[float]] = {}
    for round_ in rounds:
        blocks = blocks_of([round_], BASELINE, BlockKind.TIMED)
        costs.setdefault(round_.core, []).extend(block.cpu_ns / block.calls for block in blocks)
    usual = [median(values) for values in costs.values() if values]
    return max(usual) / min(usual) - 1


def wall_per_cpu(rounds: Sequence[Round]) -> float:
    """Return the wall time of a timed block of the baseline over its CPU time, median."""
    timed = blocks_of(rounds, BASELINE, BlockKind.TIMED)
    return median(block.wall_ns / max(1, block.cpu_ns) for block in timed)
