"""Whether an arm is fast, or remembers. Pure.

A confirmation lets every unit, a fresh fork each, see its inputs in four ways: one half of them for the first
time, the other half for the first time, both halves again, each once in a block, and all of them in the timed
blocks, which repeat them. Code that is fast is fast the first time, too, and wherever an input comes once.
Code that remembers is not, and then its first pass over the inputs is its claim: a cache is no fault, but
what it gains on inputs that it knows says nothing about the next one.

What the first steps of a fork cost anyway (pages that are copied, code that is specialised) the baseline pays
as well; only what an arm pays beyond that counts against it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log, sqrt
from statistics import median

from codeflash_parallel.benchmark.noise import MAD_TO_SD
from codeflash_parallel.benchmark.plan import BASELINE
from codeflash_parallel.benchmark.raced import Raced
from codeflash_parallel.benchmark.samples import (
    Block,
    BlockKind,
    ChannelCost,
    Clock,
    Round,
    beyond_ns,
    channel_cost,
    net_ns,
)
from codeflash_parallel.benchmark.together import counting
from codeflash_parallel.benchmark.tracks import Track, track

#: An arm remembers where what new inputs cost it more than known ones exceeds this share of the latter ...
EXCESS_SHARE = 0.25
#: ... and so many standard errors, over so many forks: twelve, of which one in four may be void.
STANDARD_ERRORS = 3.0
LEAST_FORKS = 9
#: ... in all groups of tests together; in one of up to four alone so many. (From twelve Gaussian values the
#: median lies beyond three of its standard errors, as `_error` has them, once in 70 times, and beyond five
#: once in 500.)
GROUP_ERRORS = 5.0

#: And so many nanoseconds: by as much the first steps on new inputs differ between two honest arms.
STEPS_NS = 15_000

#: The same for known inputs where each comes once in a block, beyond blocks that repeat them: a block begins
#: with what others have left of the caches. Never more than this share of what an arm saves ...
BLOCK_NS = 60_000
FORGOTTEN_SHARE = 0.75
#: ... and never less than so many nanoseconds a block: the first steps of honest arms differ by as much.
BLOCK_STEPS_NS = 3_000

#: Gains up to this are not looked into so: they are what the first steps of blocks differ by.
FORGOTTEN_GAIN = 0.1

#: The same for the whole first pass of a process, in which code runs for the first time and small tables are
#: made, which is nobody's concern.
SETUP_NS = 1_000_000

#: For Gaussian noise, a median's standard error is that of the mean times this, the root of pi / 2.
MEDIAN_ERROR = 1.2533

#: A gain is proven by the first pass if that surely gains so much, the steps of a fork included ...
PROVEN_GAIN = log(1.5)
#: ... or if surely at least this share of the saving is in it. Little, because where calls are short, what a
#: fork's first steps cost scatters by as much as the saving itself.
PROVEN_SHARE = 0.25

_FIRST_PASS = frozenset({BlockKind.FIRST, BlockKind.COLD})


def remembers(raced: Raced, arm: str) -> bool:
    """Return whether an arm is fast only on inputs that its process knows, or after its first ones.

    What is saved in one group of tests may be less than what all others scatter by: each is looked at, too.
    """
    if _show_memory(_pairs(raced, arm), STANDARD_ERRORS):
        return True
    groups = range(len(raced.plan.groups))
    return any(_show_memory(_pairs(raced, arm, group), GROUP_ERRORS) for group in groups)


def _show_memory(pairs: Sequence[tuple[_Passes, _Passes]], errors: float) -> bool:
    """Return whether what inputs cost an arm the first time exceeds the rest, by so many standard errors."""
    looked_up = [own.relearnt - base.relearnt for own, base in pairs]
    # Nothing is allowed to an arm that is slower than the baseline on new inputs: all of its gain is memory.
    is_slower = median([own.cold - base.cold for own, base in pairs] or [0.0]) > 0
    known = [0.0 if is_slower else own.again for own, _ in pairs]
    looked_up_late = [own.learnt_late - base.learnt_late for own, base in pairs]
    prepared = [own.set_up - base.set_up for own, base in pairs]
    # First steps are taken once in a process for the most part, however many blocks there are.
    late_ns = BLOCK_NS + STEPS_NS * max((own.blocks for own, _ in pairs), default=0)
    return (
        _exceeds(looked_up, known, 0 if is_slower else STEPS_NS, errors)
        or _exceeds(looked_up_late, [own.later for own, _ in pairs], late_ns, errors)
        or _exceeds(prepared, [own.hot for own, _ in pairs], SETUP_NS, errors)
        or _forgets(pairs, errors)
    )


def is_unknown(raced: Raced, arm: str) -> bool:
    """Return whether inputs were repeated in too few rounds to say whether an arm remembers them."""
    return 0 < len(_pairs(raced, arm)) < LEAST_FORKS


def claimed(raced: Raced, arm: str) -> Track:
    """Return what an arm's claim is made from: the first pass over its inputs, if it remembers."""
    usual = raced.tracks[arm]
    if not remembers(raced, arm):
        return usual
    told = counting(raced.rounds, Clock.WALL) if usual.clock is Clock.WALL else raced.rounds
    rounds = [_first_pass(round_, raced.rounds) for round_ in told]
    return track(rounds, arm, raced.plan, usual.clock)


def is_proven(raced: Raced, arm: str) -> bool:
    """Return whether some of what an arm saves is surely saved the first time, too.

    Calls so long that nothing is repeated are always new.
    """
    pairs = _pairs(raced, arm)
    if not pairs:
        return True
    gains = [log(base.first / own.first) for own, base in pairs]
    if median(gains) - STANDARD_ERRORS * _error(gains) > PROVEN_GAIN:
        return True
    missing = [own.relearnt - base.relearnt for own, base in pairs]
    saved = median(base.again - own.again for own, base in pairs)
    return median(missing) + STANDARD_ERRORS * _error(missing) < (1 - PROVEN_SHARE) * saved


def _exceeds(excess: Sequence[float], usual: Sequence[float], least_ns: float, errors: float) -> bool:
    """Return whether an excess is one: beyond a floor, a share of what is usual, and its own scatter."""
    if len(excess) < LEAST_FORKS:
        return False
    return median(excess) > max(least_ns, EXCESS_SHARE * median(usual), errors * _error(excess))


def _forgets(pairs: Sequence[tuple[_Passes, _Passes]], errors: float) -> bool:
    """Return whether an arm saves where a block repeats its inputs what it does not where each comes once."""
    if len(pairs) < LEAST_FORKS:
        return False
    missing = [own.forgotten - base.forgotten for own, base in pairs]
    saved = median(base.hot - own.hot for own, base in pairs)
    hot = median(own.hot for own, _ in pairs)
    least_ns = max(BLOCK_STEPS_NS * pairs[0][0].blocks, errors * _error(missing))
    bar = max(least_ns, min(max(BLOCK_NS, EXCESS_SHARE * hot), FORGOTTEN_SHARE * saved))
    return saved > FORGOTTEN_GAIN * hot and median(missing) > bar


def _error(values: Sequence[float]) -> float:
    """Return the standard error of the median, by the median absolute deviation."""
    centre = median(values)
    spread = MAD_TO_SD * median(abs(value - centre) for value in values)
    return MEDIAN_ERROR * spread / sqrt(len(values))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Passes:
    """Nanoseconds that an arm took in one round, over all groups in which inputs are repeated.

    Attributes:
        first: all inputs for the first time.
        cold: the second half for the first time, after the first half.
        again: that half again, at once.
        later: that half, each time that it came once in a block.
        known: all inputs again, each once in a block.
        blocks: that these are in.
        hot: all inputs in the timed blocks.
    """

    first: float
    cold: float
    again: float
    later: float
    known: float
    blocks: int
    hot: float

    @property
    def relearnt(self) -> float:
        """What new inputs cost beyond known ones, in code that has run before."""
        return self.cold - self.again

    @property
    def learnt_late(self) -> float:
        """The same for inputs known from the third time on: by then code has taken all first steps."""
        return self.cold - self.later

    @property
    def forgotten(self) -> float:
        """What known inputs cost in a block of their own beyond what they cost where they come again in one.

        A memo that is emptied whenever nobody calls for a while, or that begins late, pays for the former.
        """
        return self.known - self.hot

    @property
    def set_up(self) -> float:
        """What the first pass costs beyond later ones."""
        return self.first - self.hot


def _pairs(raced: Raced, arm: str, group: int | None = None) -> list[tuple[_Passes, _Passes]]:
    """Return what an arm and the baseline took in the rounds that count and in which inputs were repeated.

    Args:
        raced: a race or a confirmation.
        arm: id.
        group: `None`: all groups of tests together.
    """
    clock = raced.tracks[arm].clock
    cost = channel_cost(raced.rounds)
    rounds = [[b for b in r.blocks if group in (None, b.group)] for r in raced.rounds if not r.void]
    return [
        (_passes(blocks, arm, cost, clock), _passes(blocks, BASELINE, cost, clock))
        for blocks in rounds
        if any(b.arm == arm and b.kind is BlockKind.AGAIN for b in blocks)
    ]


def _passes(taken: Sequence[Block], arm: str, cost: ChannelCost, clock: Clock) -> _Passes:
    mine = [block for block in taken if block.arm == arm]
    repeated = {block.group for block in mine if block.kind is BlockKind.AGAIN}
    blocks = [block for block in mine if block.group in repeated]

    def took(kinds: frozenset[BlockKind]) -> float:
        return sum(net_ns(block, cost, clock) for block in blocks if block.kind in kinds)

    cold = {(block.group, block.start) for block in blocks if block.kind is BlockKind.COLD}
    known = _known_ns(blocks, cost, clock)
    hot = sum(_hot_ns([b for b in blocks if b.group == group], cost, clock) for group in repeated)
    # Races that are on record from before looked at one half again.
    is_whole = known.keys() == {(b.group, b.start) for b in blocks if b.kind in _FIRST_PASS}
    return _Passes(
        first=took(_FIRST_PASS),
        cold=took(frozenset({BlockKind.COLD})),
        again=sum(_first_ns(blocks, half, cost, clock) for half in cold),
        later=sum(known[half] for half in cold),
        known=sum(known.values()) if is_whole else hot,
        blocks=len(known),
        hot=hot,
    )


def _first_ns(blocks: Sequence[Block], half: tuple[int, int], cost: ChannelCost, clock: Clock) -> float:
    """Return what inputs, by group and number of the first, take when they come for the second time."""
    again = (b for b in blocks if b.kind is BlockKind.AGAIN and (b.group, b.start) == half)
    return net_ns(next(again), cost, clock)


def _known_ns(blocks: Sequence[Block], cost: ChannelCost, clock: Clock) -> Mapping[tuple[int, int], float]:
    """Return what known inputs take where each comes once in a block, by group and first input.

    The lower quartile: the machine makes such short blocks longer, and never shorter.
    """
    found: dict[tuple[int, int], list[float]] = defaultdict(list)
    for block in blocks:
        if block.kind is BlockKind.AGAIN:
            found[block.group, block.start].append(beyond_ns(block, cost, clock))
    return {half: sorted(taken)[len(taken) // 4] for half, taken in found.items()}


def _hot_ns(blocks: Sequence[Block], cost: ChannelCost, clock: Clock) -> float:
    """Return what one pass over a group takes in its timed blocks, mean."""
    cycle = sum(block.calls for block in blocks if block.kind in _FIRST_PASS)
    timed = [block for block in blocks if block.kind is BlockKind.TIMED]
    return sum(net_ns(b, cost, clock) for b in timed) * cycle / sum(b.calls for b in timed)


def _first_pass(round_: Round, rounds: Sequence[Round]) -> Round:
    """Return a round in which the first pass over a group's inputs stands for its timed blocks."""
    repeated = {block.group for block in round_.blocks if block.kind is BlockKind.AGAIN}
    kept = [b for b in round_.blocks if b.kind is BlockKind.EMPTY or b.group not in repeated]
    cost = channel_cost(rounds)
    for arm in dict.fromkeys(block.arm for block in round_.blocks):
        for group in repeated:
            first = [b for b in round_.blocks if (b.arm, b.group) == (arm, group) and b.kind in _FIRST_PASS]
            kept.append(_merged(first, cost))
    return replace(round_, blocks=tuple(kept))


def _merged(blocks: Sequence[Block], cost: ChannelCost) -> Block:
    """Return two blocks as one that has paid for the channel once."""
    spare = len(blocks) - 1
    return replace(
        blocks[0],
        kind=BlockKind.TIMED,
        calls=sum(block.calls for block in blocks),
        cpu_ns=sum(block.cpu_ns for block in blocks) - round(spare * cost.cpu_ns),
        wall_ns=sum(block.wall_ns for block in blocks) - round(spare * cost.wall_ns),
        deferred_ns=sum(block.deferred_ns for block in blocks),
        kept=sum(block.kept for block in blocks),
    )
