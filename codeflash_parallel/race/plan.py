"""The terms of a race: arms, work, error budgets and the order of blocks. Nothing here acts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from random import Random
from typing import Any

from codeflash_parallel.result.runtime_protocols import Workspace

#: Id of the baseline among the arms of a race; no candidate's id starts with an equals sign.
BASELINE = "=baseline"

#: Id of the second baseline that races as if it were a candidate.
NULL = "=null"

#: The heaviest tests that get a group of their own; with the rest that makes at most four groups.
HEAVY_TESTS = 3

#: How many leaders, one after the other, may fail to be confirmed before the race gives up.
MAX_CONFIRMATIONS = 3

#: A cycle longer than this is timed once per round and arm, without warming and without a mirror image.
LEAN_CYCLE_NS = 50_000_000

#: From this gain on a candidate's blocks of a confirmation hold more calls than the baseline's, in proportion
#: to the gain, up to so many times: copies of their inputs need memory.
SHORT_GAIN = 1.25
MOST_CALLS = 20.0

#: Beyond this gain a set of processes of a confirmation has four rounds instead of two, and shorter ones.
LARGE_GAIN = 1.5

#: It has four, too, where a process takes longer than this to become ready, CPU nanoseconds: six sets would
#: take minutes, and what their processes differ by is half of the smallest claim at most.
DEAR_START_NS = 1_000_000_000


class WorkKind(StrEnum):
    """Kind of work that a block runs."""

    #: Captured calls of the targets.
    CALLS = "calls"
    #: Whole test items.
    TESTS = "tests"
    #: Calls of the targets inside whole test items.
    IN_PLACE = "in-place"
    #: What the project's pytest-benchmark tests hand to their fixture.
    BENCHMARKS = "pytest-benchmark"
    #: A callable that the user names.
    CALLABLE = "callable"
    #: A command that the user names, in a process of its own each time.
    COMMAND = "command"


class RaceStage(StrEnum):
    """One of the two measurements."""

    #: Finds the leaders; its figures are orientation.
    RACE = "race"
    #: New processes and rounds on the leaders; its figures are the claim.
    CONFIRMATION = "confirmation"


@dataclass(frozen=True, kw_only=True, slots=True)
class CostGroup:
    """Work that is timed together.

    Attributes:
        calls: indices in the inputs file; empty when whole tests are run.
        tests: ids of the tests it stands for.
        ns: what all of it costs the baseline, before sampling: the group's weight.
        pass_ns: what one pass over `calls` costs, copies included; 0: as much as all of it.
        twins: indices in the file of twins, by block: as many of each call, other values of the same shape.
    """

    name: str
    ns: int
    calls: tuple[int, ...] = ()
    tests: tuple[str, ...] = ()
    pass_ns: int = 0
    twins: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Arm:
    """One competitor: a workspace that holds its code, and the fields of its runner's spec.

    Attributes:
        spec: `targets`, `prove`, `inputs` and whatever else the runner's mode `arm` needs; `mode`, `work`
            and `groups` are filled in by the race.
    """

    id: str
    workspace: Workspace
    spec: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class RacePlan:
    """The rules of one race.

    Attributes:
        confidence: of the claim that a winner is faster, over all looks, arms and attempts.
        min_speedup: smallest gain worth claiming, as a fraction.
        target: gain worth finding, as a fraction; whoever surely has less is not timed any longer.
        max_regression: largest slowdown of one group, as a fraction.
        indifference: arms closer than this fraction are tied.
        max_cpu_cost: CPU time that a gain on the wall clock may cost, as a multiple of the baseline's.
        giving_up: error of decisions that only cost power: that an arm misses the target or slows a group, or
            that it may be confirmed.
        budget_ns: wall time that the race may take.
        block_ns: how long one timed block of the baseline should take.
        timed_ns: how long each arm's timed blocks of one round should be in all. What the machine does to a
            block lasts hardly longer than the block, so many short ones tell more than few long ones: half
            the spread, for the same time, at 1.5 ms as at 6.
        least_palindromes: all groups together have so many in a round where nothing is so long that it is not
            repeated: fewer blocks than about a dozen leave each other's accidents standing.
        more_calls: so many times as many calls as the baseline's hold candidates' timed blocks.
        layout_rounds: rounds after which every arm gets a new process.
        least_rounds: rounds before which nothing but the loss of all candidates ends it.
        max_rounds: rounds at most.
        dear: one call is long, or the budget short: the field is cut while the race goes on.
        together: long calls of all arms may run at once from the first round on.
        ahead: the next processes may be started while rounds are held, on another core.
        preloads: pytest is imported once for all processes of a set: none of the trees holds any of it.
        count_repeats: what is gained on inputs seen before is credited, whatever is gained on others.
        share: part of the error budget `1 - confidence` that this race may spend.
        campaign_share: part of it that a campaign of many runs leaves to this one.
        cores: the cores that rounds may be put on; empty: the arms are not pinned.
    """

    groups: tuple[CostGroup, ...]
    work: WorkKind = WorkKind.CALLS
    stage: RaceStage = RaceStage.RACE
    confidence: float = 0.99
    min_speedup: float = 0.01
    target: float = 0.02
    max_regression: float = 0.05
    indifference: float = 0.02
    max_cpu_cost: float = 1.2
    giving_up: float = 0.02
    budget_ns: int = 60_000_000_000
    block_ns: int = 1_500_000
    timed_ns: int = 24_000_000
    least_palindromes: int = 6
    more_calls: float = 1.0
    layout_rounds: int = 6
    least_rounds: int = 1
    max_rounds: int = 72
    dear: bool = False
    together: bool = False
    ahead: bool = False
    preloads: bool = False
    count_repeats: bool = False
    share: float = 1.0
    campaign_share: float = 1.0
    cores: tuple[int, ...] = ()

    @property
    def alpha(self) -> float:
        """The error that this race may spend, on all candidates and looks together."""
        return self.void_alpha * self.campaign_share

    @property
    def void_alpha(self) -> float:
        """The error at which two baselines are called different: a campaign is not more lenient there."""
        return (1 - self.confidence) * self.share

    @property
    def worth_finding(self) -> float:
        """The target; never below the smallest claim."""
        return max(self.target, self.min_speedup)

    def confirmation(
        self,
        budget_ns: int,
        gain: float = 1.0,
        *,
        is_uneven: bool = False,
        candidates: int = 2,
        start_ns: int = 0,
    ) -> RacePlan:
        """Return the rules of one confirmation: twelve rounds, some for each new set of processes.

        Identical code in two processes that are forked off one interpreter differs by 0 to 0.5 % for as long
        as both live, a third of what one round scatters by: drawn from records, two rounds a set made no
        false claim in 40,000. On a near miss there are more rounds, as many as a gain of 3 % needs where
        rounds scatter by 3 %. A third of the error budget, unless `confirmation_of` divides it among
        more attempts.

        Args:
            budget_ns: wall time that it may take.
            gain: of the fastest arm, as the race saw it. With as many calls as the baseline's, the blocks of
                a very fast one would drown in what any block costs beside its calls.
            is_uneven: an arm does in some calls what it puts off in others: a block is to hold both.
            candidates: how many are confirmed. Rounds that scatter by a few per cent tell one large gain from
                none, and not two large gains from each other.
            start_ns: CPU time in which processes of the race became ready, median.
        """
        is_large = gain > LARGE_GAIN
        is_plain = is_large and candidates == 1
        return replace(
            self,
            stage=RaceStage.CONFIRMATION,
            least_rounds=12,
            layout_rounds=4 if is_large or start_ns > DEAR_START_NS else 2,
            block_ns=self.block_ns // 2 if is_large else self.block_ns,
            timed_ns=self.timed_ns // (4 if is_plain else 2 if is_large else 1),
            least_palindromes=self.least_palindromes // 2 if is_plain else self.least_palindromes,
            dear=False,
            more_calls=MOST_CALLS if is_uneven else min(MOST_CALLS, max(1.0, gain / SHORT_GAIN)),
            share=1 / MAX_CONFIRMATIONS,
            budget_ns=budget_ns,
        )


def weights(groups: Sequence[CostGroup]) -> tuple[float, ...]:
    """Return each group's weight: its share of the baseline's time, from three groups up none above one half.

    What is cut off goes to the others in proportion, so that one heavy test does not silence the rest.
    """
    whole = sum(group.ns for group in groups)
    shares = [group.ns / whole for group in groups]
    top = max(shares)
    if len(groups) < HEAVY_TESTS or top <= 1 / 2:
        return tuple(shares)
    others = whole - max(group.ns for group in groups)
    return tuple(
        1 / 2 if share == top else group.ns / others / 2 for share, group in zip(shares, groups, strict=True)
    )


def block_order(candidates: Sequence[str], random: Random) -> tuple[str, ...]:
    """Return the order of one round's timed blocks: a palindrome with baseline blocks near every candidate.

    A palindrome cancels linear drift. Whether the baseline stands at its ends or in its middle is drawn
    by lot, so that a curved drift favours nobody either.
    """
    shuffled = list(candidates)
    random.shuffle(shuffled)
    half: list[str] = []
    for position, arm in enumerate(shuffled):
        if position % 2 == 0:
            half.append(BASELINE)
        half.append(arm)
    outward = half[::-1]
    return tuple(half + outward) if random.random() < 1 / 2 else tuple(outward + half)
