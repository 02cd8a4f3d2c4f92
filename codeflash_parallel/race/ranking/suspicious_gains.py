"""Gains that a guard doubts, because of where they come from or what they cost. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from statistics import median

from codeflash_parallel.race.measurement import (
    BlockKind,
    DecidingClock,
    Round,
    blocks_of,
    channel_cost,
    net_ns,
)
from codeflash_parallel.race.plan import BASELINE, WorkKind
from codeflash_parallel.race.race_result import Raced
from codeflash_parallel.race.statistics.confidence_sequence import Interval, SequentialEvidence, bounds
from codeflash_parallel.race.statistics.log_ratios import track
from codeflash_parallel.race.statistics.sequential_test import TOO_SHORT

#: Gains up to this are credited even to those who may know inputs from an earlier process.
CREDITED_GAIN = log(1.1)

#: What the CPU clock shows and the wall clock surely does not, at most: the baseline may wait a little. No
#: more is asked of that than `TOO_SHORT`: such blocks are shorter than the way to the arm and back.
WALL_SHORTFALL = log(2)

#: So much more an arm's first calls may take: small tables are nobody's concern.
FIRST_CALLS_NS = 1_000_000

#: So much of what calls in place gain the rest of their tests may take more.
MOVED_SHARE = 0.25
MOSTLY = 0.75

#: No suspicion, but no proof either.
SCATTERS = "the rest of its tests scatters too much to exclude that work was moved there"

#: Error of the doubt that the wall clock raises.
DOUBT_ALPHA = 0.01


def suspicion(raced: Raced, arm: str, bound: Interval) -> str:
    """Return why an arm's gain is doubted, one clause; empty when it is not.

    Args:
        raced: its confirmation.
        arm: id.
        bound: of its claim.
    """
    moved = _first_calls(raced, arm) or (raced.plan.work is WorkKind.IN_PLACE and _moved(raced, arm)) or ""
    return _source(raced, arm, bound) or moved or _price(raced, arm, bound)


def _moved(raced: Raced, arm: str) -> str:
    """Return that the rest of the tests grew, or may have grown, by some of what is saved; or nothing.

    What is done outside of the targets' calls is on no other clock. It may not surely have grown by a quarter
    of what is saved; and in later passes, which are less noisy, it may not seem to have grown so, and surely
    not by most of what is saved.
    """
    later, first = (_rest(raced, arm, kind) for kind in (BlockKind.TIMED, BlockKind.FIRST))
    sure = raced.plan.giving_up
    if any(SequentialEvidence(_grown(rows, MOVED_SHARE)).above(0.0) * sure >= 1 for rows in (later, first)):
        return "the rest of its tests takes longer: work was moved there"
    is_sure = SequentialEvidence(_grown(later, MOSTLY)).below(0.0) * sure >= 1
    return "" if is_sure and SequentialEvidence(_grown(later, MOVED_SHARE)).centre() <= 0 else SCATTERS


def _grown(rows: Sequence[tuple[float, float, float]], share: float) -> list[float]:
    """Return by what part of its tests' time their rest grew beyond a share of what is saved, by round."""
    return [(grown - share * saved) / whole for saved, grown, whole in rows]


def _rest(raced: Raced, arm: str, kind: BlockKind) -> list[tuple[float, float, float]]:
    """Return what a pass over all groups saves, what its rest grew by, and what it takes, for each round."""
    found: list[tuple[float, float, float]] = []
    for round_ in raced.rounds:
        passes = [_passes(round_, name, kind) for name in (arm, BASELINE)]
        if not round_.void and all(passes):
            (own, own_rest), (base, base_rest) = (map(sum, zip(*part, strict=True)) for part in passes)
            found.append((base - own, own_rest - base_rest, base + base_rest))
    return found


def _passes(round_: Round, arm: str, kind: BlockKind) -> list[tuple[float, float]]:
    """Return what calls and the rest of each group's tests take in a pass, median."""
    mine = list(blocks_of([round_], arm, kind))
    groups = [[block for block in mine if block.group == group] for group in {b.group for b in mine}]
    return [
        (median(b.cpu_ns / b.calls for b in own), median(b.rest_ns / b.calls for b in own)) for own in groups
    ]


def _source(raced: Raced, arm: str, bound: Interval) -> str:
    """Return how an arm may know inputs from an earlier process, one clause; empty if it surely does not."""
    rounds = [round_ for round_ in raced.rounds if not round_.void]
    if bound.estimate <= CREDITED_GAIN:
        return ""
    if (
        raced.plan.work is not WorkKind.COMMAND
        and _reads(rounds, arm, arm) >= _reads(rounds, arm, BASELINE) + 1
    ):
        return "it reads files where the baseline does not: a cache outside its process is not excluded"
    # What was left in a round of all at once may be anybody's; the baseline's own shows when it runs alone.
    its_own = any(BASELINE in round_.unclean for round_ in rounds if not round_.together)
    # Once it may be what another program of this user put into shared memory meanwhile.
    if not its_own and sum(arm in round_.unclean for round_ in rounds) > 1:
        return "it leaves files that its next process could find: a cache outside its process is not excluded"
    return ""


def _first_calls(raced: Raced, arm: str) -> str:
    """Return that an arm does in its first calls what it leaves out later, or nothing."""
    cost, clock = channel_cost(raced.rounds), raced.tracks[arm].clock
    more_ns = [
        sum(net_ns(block, cost, clock) for block in blocks_of([round_], arm, BlockKind.FIRST))
        - sum(net_ns(block, cost, clock) for block in blocks_of([round_], BASELINE, BlockKind.FIRST))
        for round_ in raced.rounds
        if not round_.void
    ]
    if median(more_ns or [0]) <= FIRST_CALLS_NS:
        return ""
    return (
        f"its first calls take {median(more_ns) / 1e6:.1f} ms more than the baseline's: work was moved there"
    )


def _reads(rounds: list[Round], arm: str, by: str) -> float:
    """Return how many reads are made in a block of as many calls as an arm's hold, median, by it or another.

    With inputs that are known: whoever reads then looks something up. Where calls are so long that no input
    is repeated, modules that a call imports are read in every block. (So they are by commands, whose reads
    the kernel counts with those of the unit.)
    """
    repeated = {block.group for block in blocks_of(rounds, arm, BlockKind.FIRST)}
    sizes = {(b.group, b.calls) for b in blocks_of(rounds, arm, BlockKind.TIMED) if b.group in repeated}
    kinds = (BlockKind.TIMED, BlockKind.MANY)
    blocks = [block for kind in kinds for block in blocks_of(rounds, by, kind)]
    return median([block.reads for block in blocks if (block.group, block.calls) in sizes] or [0])


def _price(raced: Raced, arm: str, bound: Interval) -> str:
    """Return what an arm pays elsewhere for its gain, one clause; empty where that is allowed."""
    if raced.tracks[arm].clock is DecidingClock.CPU:
        return _contradiction(raced, arm, bound)
    cost = _cpu_cost(raced, arm)
    if cost > raced.plan.max_cpu_cost:
        return f"children or threads: it costs {cost:.1f} times the CPU time of the baseline"
    return ""


def _contradiction(raced: Raced, arm: str, bound: Interval) -> str:
    """Return what the wall clock says against a gain on the CPU clock, one clause; empty if nothing."""
    wall = bounds(track(raced.rounds, arm, raced.plan, DecidingClock.WALL).total, DOUBT_ALPHA)
    if wall.high < 0:
        return "faster on the CPU clock, slower on the wall clock"
    if wall.high < min(bound.low, TOO_SHORT) - WALL_SHORTFALL:
        return f"on the wall clock it gains {exp(wall.high):.2f}x at most: it waits"
    return ""


def _cpu_cost(raced: Raced, arm: str) -> float:
    """Return an arm's CPU time over the baseline's, per call and with that of children, median."""
    pairs = [(cpu_per_call(r, arm), cpu_per_call(r, BASELINE)) for r in raced.rounds if not r.void]
    return median([own / base for own, base in pairs if own and base] or [1.0])


def cpu_per_call(round_: Round, arm: str) -> float:
    """Return the CPU time of an arm's unit with all processes that it waited for, per call; 0 without any."""
    mine = [block for block in round_.blocks if block.arm == arm]
    calls = sum(block.calls for block in mine)
    used_ns = sum(block.cpu_ns for block in mine) + round_.children_ns.get(arm, 0)
    return used_ns / calls if calls else 0.0
