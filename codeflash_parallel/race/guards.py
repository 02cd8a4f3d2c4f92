"""Guards of the race: ways of seeming fast without doing less work, and what is said of each. Pure.

One table of tests and their sentences, in two parts at the end of this file. `MISCONDUCT` is checked after
every round, on all arms: those that are caught leave the race. `DOUBTS` are checked on a gain that a
confirmation found: the first one that holds says why the gain is not credited. Work beside the clock
(`statistics.log_ratios`) and gains on known inputs only (`claimed` there) need no sentence
here: they are taken off the figure itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log, sqrt
from statistics import fmean, median, stdev

from codeflash_parallel.race.measurement import (
    Block,
    BlockKind,
    DecidingClock,
    Round,
    blocks_of,
    channel_cost,
    net_ns,
)
from codeflash_parallel.race.plan import BASELINE, NULL, WorkKind
from codeflash_parallel.race.race_result import Disqualification, Raced
from codeflash_parallel.race.statistics.confidence_sequence import Interval, SequentialEvidence, bounds
from codeflash_parallel.race.statistics.log_ratios import track
from codeflash_parallel.race.statistics.sequential_test import TOO_SHORT
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code

#: A process may need this share and so many nanoseconds more than the baseline's to become ready: changed
#: modules are compiled anew, and a small table is nobody's cheat.
START_SHARE = 0.25
START_NS = 50_000_000

#: What is beyond that must be by so many standard errors, over so many layouts.
START_ERRORS = 3.0
START_LAYOUTS = 3

#: So often must the baseline have given the same outcomes, in any layout, before an arm is held to them.
WITNESSES = 2

#: Gains up to this are credited even to those who may know inputs from an earlier process.
CREDITED_GAIN = log(1.1)

#: What the CPU clock shows and the wall clock surely does not, at most: the baseline may wait a little. No
#: more is asked of that than `TOO_SHORT`: such blocks are shorter than the way to the arm and back.
WALL_SHORTFALL = log(2)

#: So much more an arm's first calls may take: small tables are nobody's concern.
FIRST_CALLS_MS = 1.0

#: So much of what calls in place gain the rest of their tests may take more.
MOVED_SHARE = 0.25
MOSTLY = 0.75

#: Error of the doubt that the wall clock raises.
DOUBT_ALPHA = 0.01

#: Nanoseconds in a second.
SECOND = 1e9


@dataclass(frozen=True, kw_only=True, slots=True)
class Gain:
    """A gain that a confirmation found.

    Attributes:
        raced: the confirmation.
        arm: id.
        bound: of its claim.
    """

    raced: Raced
    arm: str
    bound: Interval

    @property
    def rounds(self) -> list[Round]:
        """The rounds that count."""
        return [round_ for round_ in self.raced.rounds if not round_.void]

    @property
    def clock(self) -> DecidingClock:
        """The clock that decides for the arm."""
        return self.raced.tracks[self.arm].clock

    @property
    def is_large(self) -> bool:
        """Whether it is beyond what is credited to arms that may know their inputs."""
        return self.bound.estimate > CREDITED_GAIN


@dataclass(frozen=True, kw_only=True, slots=True)
class Doubt:
    """Why a gain is not credited, one clause."""

    code: Code
    reason: str


def misconduct(rounds: Sequence[Round]) -> Mapping[str, Disqualification]:
    """Return the arms that are out for what they did in the rounds of one race so far, and why."""
    return {
        arm: replace(out, reason=out.reason.format(figure))
        for test, out in MISCONDUCT.items()
        for arm, figure in test(rounds).items()
    }


def doubt_of(gain: Gain) -> Doubt | None:
    """Return why a gain is doubted; `None` where no guard of the table holds."""
    for test, sentence in DOUBTS.items():
        if figure := test(gain):
            code = Code.TOO_NOISY if test in UNSURE else Code.SUSPECT
            return Doubt(code=code, reason=sentence.format(figure))
    return None


def starting_longer(rounds: Sequence[Round]) -> Mapping[str, float]:
    """Return the arms that surely need more CPU time to become ready than is allowed, and seconds more.

    Where work is moved to import, no block shows it.
    """
    surplus: dict[str, dict[int, float]] = {}
    baseline: dict[str, dict[int, float]] = {}
    for round_ in rounds:
        for arm in round_.start_ns.keys() - {BASELINE, NULL}:
            if BASELINE in round_.start_ns:
                surplus.setdefault(arm, {})[round_.layout] = round_.start_ns[arm] - round_.start_ns[BASELINE]
                baseline.setdefault(arm, {})[round_.layout] = round_.start_ns[BASELINE]
    return {
        arm: fmean(by_layout.values()) / SECOND
        for arm, by_layout in surplus.items()
        if _is_over([*by_layout.values()], START_NS + START_SHARE * fmean(baseline[arm].values()))
    }


def _is_over(values: Sequence[float], cap: float) -> bool:
    """Return whether the mean of some values is surely over a cap."""
    if len(values) < START_LAYOUTS:
        return False
    return fmean(values) - START_ERRORS * stdev(values) / sqrt(len(values)) > cap


def leaking(rounds: Sequence[Round]) -> Mapping[str, int]:
    """Return the arms that had more processes left at the end of a block than the baseline ever had."""
    blocks = [block for round_ in rounds for block in round_.blocks]
    usual = max((b.children for b in blocks if b.arm == BASELINE), default=0)
    return Counter(b.arm for b in blocks if b.children > usual and b.arm != NULL)


#: What must be equal for two blocks to have made the same calls, of which the same outcomes were encoded:
#: layout, group, first input, calls, encoded outcomes. Twins of a group's calls are a group of their own,
#: with a negative number.
_Work = tuple[int, int, int, int, int]


def _digests(rounds: Sequence[Round]) -> Iterator[tuple[_Work, Block]]:
    for round_ in rounds:
        for block in round_.blocks:
            if block.digest:
                group = ~block.group if block.kind is BlockKind.TWIN else block.group
                yield (round_.layout, group, block.start, block.calls, block.kept), block


def disagreeing(rounds: Sequence[Round]) -> Mapping[str, int]:
    """Return the arms of which a block's outcomes differ from the baseline's of the same layout.

    Groups of which the baseline itself does not repeat the outcomes tell nothing and are left out, in all
    layouts: a chance that often falls alike is one all the same.
    """
    seen = _repeated(rounds, frozenset({BASELINE, NULL}))
    witnesses = Counter(b.digest for _, b in _digests(rounds) if b.arm in {BASELINE, NULL})
    unstable = _unstable(seen)
    known = {
        work: digest
        for work, digests in seen.items()
        for digest in digests
        if work[1] not in unstable and witnesses[digest] >= WITNESSES
    }
    return Counter(b.arm for work, b in _digests(rounds) if known.get(work, b.digest) != b.digest)


def unstable_groups(rounds: Sequence[Round]) -> frozenset[int]:
    """Return the groups whose outcomes the baseline does not repeat within one layout."""
    unstable = _unstable(_repeated(rounds, frozenset({BASELINE})))
    return frozenset(group if group >= 0 else ~group for group in unstable)


def _repeated(rounds: Sequence[Round], arms: frozenset[str]) -> dict[_Work, set[str]]:
    """Return the digests that some arms gave, by work."""
    seen: dict[_Work, set[str]] = {}
    for work, block in _digests(rounds):
        if block.arm in arms:
            seen.setdefault(work, set()).add(block.digest)
    return seen


def _unstable(seen: Mapping[_Work, set[str]]) -> frozenset[int]:
    return frozenset(work[1] for work, digests in seen.items() if len(digests) > 1)


def _reads_files(gain: Gain) -> bool:
    """Return whether an arm may know inputs from files that it reads where the baseline does not.

    The kernel counts the reads of commands, which import what they need each time, with those of the unit.
    """
    is_command = gain.raced.plan.work is WorkKind.COMMAND
    return gain.is_large and not is_command and _reads(gain, gain.arm) >= _reads(gain, BASELINE) + 1


def _reads(gain: Gain, by: str) -> float:
    """Return how many reads are made in a block of as many calls as an arm's hold, median, by it or another.

    With inputs that are known: whoever reads then looks something up. Where calls are so long that no input
    is repeated, modules that a call imports are read in every block.
    """
    repeated = {block.group for block in blocks_of(gain.rounds, gain.arm, BlockKind.FIRST)}
    timed = blocks_of(gain.rounds, gain.arm, BlockKind.TIMED)
    sizes = {(b.group, b.calls) for b in timed if b.group in repeated}
    kinds = (BlockKind.TIMED, BlockKind.MANY)
    blocks = [block for kind in kinds for block in blocks_of(gain.rounds, by, kind)]
    return median([block.reads for block in blocks if (block.group, block.calls) in sizes] or [0])


def _leaves_files(gain: Gain) -> bool:
    """Return whether an arm may know inputs from files that an earlier process of its left behind."""
    # What was left in a round of all at once may be anybody's; the baseline's own shows when it runs alone.
    its_own = any(BASELINE in round_.unclean for round_ in gain.rounds if not round_.together)
    # Once it may be what another program of this user put into shared memory meanwhile.
    return gain.is_large and not its_own and sum(gain.arm in round_.unclean for round_ in gain.rounds) > 1


def _first_calls_ms(gain: Gain) -> float:
    """Return by how much an arm's first calls take longer, in which it does what it leaves out later."""
    cost, clock = channel_cost(gain.raced.rounds), gain.clock
    more_ns = [
        sum(net_ns(block, cost, clock) for block in blocks_of([round_], gain.arm, BlockKind.FIRST))
        - sum(net_ns(block, cost, clock) for block in blocks_of([round_], BASELINE, BlockKind.FIRST))
        for round_ in gain.rounds
    ]
    more_ms = median(more_ns or [0]) / 1e6
    return more_ms if more_ms > FIRST_CALLS_MS else 0.0


def _rest_grows(gain: Gain) -> bool:
    """Return whether the rest of the tests surely grew by a quarter of what calls in place save.

    What is done outside of the targets' calls is on no other clock.
    """
    return any(
        SequentialEvidence(_grown(gain, kind, MOVED_SHARE)).above(0.0) * gain.raced.plan.giving_up >= 1
        for kind in (BlockKind.TIMED, BlockKind.FIRST)
    )


def _rest_scatters(gain: Gain) -> bool:
    """Return whether the rest of the tests may have grown: no suspicion, but no proof either.

    In later passes, which are less noisy, it may not seem to have grown by a quarter of what is saved, and
    surely not by most of it.
    """
    if gain.raced.plan.work is not WorkKind.IN_PLACE:
        return False
    mostly = SequentialEvidence(_grown(gain, BlockKind.TIMED, MOSTLY)).below(0.0)
    seeming = SequentialEvidence(_grown(gain, BlockKind.TIMED, MOVED_SHARE)).centre()
    return mostly * gain.raced.plan.giving_up < 1 or seeming > 0


def _grown(gain: Gain, kind: BlockKind, share: float) -> list[float]:
    """Return by what part of its tests' time their rest grew beyond a share of what is saved, by round."""
    if gain.raced.plan.work is not WorkKind.IN_PLACE:
        return []
    found = []
    for round_ in gain.rounds:
        passes = [_passes(round_, name, kind) for name in (gain.arm, BASELINE)]
        if all(passes):
            (own, own_rest), (base, base_rest) = (map(sum, zip(*part, strict=True)) for part in passes)
            found.append((own_rest - base_rest - share * (base - own)) / (base + base_rest))
    return found


def _passes(round_: Round, arm: str, kind: BlockKind) -> list[tuple[float, float]]:
    """Return what calls and the rest of each group's tests take in a pass, median."""
    mine = list(blocks_of([round_], arm, kind))
    groups = [[block for block in mine if block.group == group] for group in {b.group for b in mine}]
    return [
        (median(b.cpu_ns / b.calls for b in own), median(b.rest_ns / b.calls for b in own)) for own in groups
    ]


def _cpu_cost(gain: Gain) -> float:
    """Return an arm's CPU time over the baseline's where a gain on the wall clock costs more than allowed."""
    pairs = [(cpu_per_call(r, gain.arm), cpu_per_call(r, BASELINE)) for r in gain.rounds]
    cost = median([own / base for own, base in pairs if own and base] or [1.0])
    is_dear = gain.clock is DecidingClock.WALL and cost > gain.raced.plan.max_cpu_cost
    return cost if is_dear else 0.0


def cpu_per_call(round_: Round, arm: str) -> float:
    """Return the CPU time of an arm's unit with all processes that it waited for, per call; 0 without any."""
    mine = [block for block in round_.blocks if block.arm == arm]
    calls = sum(block.calls for block in mine)
    used_ns = sum(block.cpu_ns for block in mine) + round_.children_ns.get(arm, 0)
    return used_ns / calls if calls else 0.0


def _is_slower_by_wall(gain: Gain) -> bool:
    """Return whether a gain on the CPU clock surely is a loss on the wall clock."""
    return gain.clock is DecidingClock.CPU and _most_by_wall(gain) < 0


def _gain_by_wall(gain: Gain) -> float:
    """Return what a gain on the CPU clock is on the wall clock at most, where that is far less."""
    least = min(gain.bound.low, TOO_SHORT) - WALL_SHORTFALL
    is_less = gain.clock is DecidingClock.CPU and _most_by_wall(gain) < least
    return exp(_most_by_wall(gain)) if is_less else 0.0


def _most_by_wall(gain: Gain) -> float:
    found = track(gain.raced.rounds, gain.arm, gain.raced.plan, DecidingClock.WALL)
    return bounds(found.total, DOUBT_ALPHA).high


#: Checked after every round: a test gives the figure of the sentence by arm. Of several guards that catch an
#: arm the last one counts.
MISCONDUCT: Mapping[Callable[[Sequence[Round]], Mapping[str, float]], Disqualification] = {
    starting_longer: Disqualification(
        status=CandidateStatus.LOST,
        code=Code.NOT_CONFIRMED,
        reason="its import takes {:.2f} s of CPU time more than the baseline's: work was moved there",
    ),
    leaking: Disqualification(
        status=CandidateStatus.REJECTED,
        code=Code.LEAKED_PROCESS,
        reason="its timed calls leave processes behind, which the baseline's do not",
    ),
    disagreeing: Disqualification(
        status=CandidateStatus.REJECTED,
        code=Code.NOT_CONFIRMED,
        reason="its outcomes in a timed unit differ from the baseline's",
    ),
}

#: Checked on a confirmed gain, in this order: a test gives the figure of the sentence, 0 or False where it
#: does not hold.
DOUBTS: Mapping[Callable[[Gain], float], str] = {
    _reads_files: "it reads files where the baseline does not: a cache outside its process is not excluded",
    _leaves_files: "it leaves files that its next process could find: "
    "a cache outside its process is not excluded",
    _first_calls_ms: "its first calls take {:.1f} ms more than the baseline's: work was moved there",
    _rest_grows: "the rest of its tests takes longer: work was moved there",
    _rest_scatters: "the rest of its tests scatters too much to exclude that work was moved there",
    _cpu_cost: "children or threads: it costs {:.1f} times the CPU time of the baseline",
    _is_slower_by_wall: "faster on the CPU clock, slower on the wall clock",
    _gain_by_wall: "on the wall clock it gains {:.2f}x at most: it waits",
}

#: What says that it is too noisy to exclude a cheat; the others say how it looks like one.
UNSURE = frozenset({_rest_scatters})
