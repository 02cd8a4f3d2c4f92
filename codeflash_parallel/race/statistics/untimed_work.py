"""Work that an arm does beside the clock, before a block or after it: charged to its calls. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import log, log1p
from statistics import median

from codeflash_parallel.race.measurement import LEAST_NS, Block, BlockKind, Round
from codeflash_parallel.race.plan import BASELINE, NULL
from codeflash_parallel.race.statistics.confidence_sequence import SequentialEvidence

#: Work that an arm does after the clock is charged to it when it exceeds the baseline's by this share of it,
#: with this error over all looks. (Three standard errors, looked at after every round, charge equal arms.)
DEFERRED_SHARE = 0.10
DEFERRED_ERROR = 0.01

#: And by nanoseconds: what the process is still warm from makes the same encoding differ by half of this,
#: always to the same side.
DEFERRED_NS = 50_000

#: The same for work that an arm does before the clock, when its inputs are made; it is the same code for all,
#: so that less is allowed.
PREPARED_SHARE = 0.10
PREPARED_NS = 2_000


def deferred_ns(rounds: Sequence[Round], arm: str, group: int) -> float:
    """Return the CPU time that an arm defers to after the clock, per call; 0 unless it surely does.

    Encoding equal outcomes costs all arms the same, unless some of the work is left to it.
    """
    return _surely_more_ns(
        [_checking_ns(round_, group) for round_ in rounds], arm, DEFERRED_SHARE, DEFERRED_NS
    )


def _checking_ns(round_: Round, group: int) -> Mapping[str, float]:
    """Return, by arm, what encoding one outcome cost after a round's timed blocks, where any was kept."""
    timed = (b for b in round_.blocks if b.kind is BlockKind.TIMED and b.group == group and b.kept)
    return {
        arm: sum(b.deferred_ns for b in blocks) / sum(b.kept for b in blocks)
        for arm, blocks in _by_arm(timed).items()
    }


def prepared_ns(rounds: Sequence[Round], arm: str, group: int) -> float:
    """Return the CPU time that an arm spends on inputs before the clock, per call; 0 unless it surely does.

    Inputs are made by code of the project (`__reduce__`, `__setstate__`), to which work can be moved.
    """
    return _surely_more_ns(
        [_making_ns(round_, group, arm) for round_ in rounds], arm, PREPARED_SHARE, PREPARED_NS
    )


def _making_ns(round_: Round, group: int, arm: str) -> Mapping[str, float]:
    """Return, by arm, what making the inputs of one call cost before a round's timed blocks, median.

    Of blocks that hold as many calls as the arm's: where more are made at a time each costs less.
    """
    timed = [b for b in round_.blocks if b.kind in {BlockKind.TIMED, BlockKind.MANY} and b.group == group]
    sizes = {block.calls for block in timed if block.arm == arm}
    found = _by_arm(block for block in timed if block.calls in sizes)
    return {
        name: median(block.prepared_ns / block.calls for block in blocks) for name, blocks in found.items()
    }


def _by_arm(blocks: Iterable[Block]) -> Mapping[str, Sequence[Block]]:
    found: dict[str, list[Block]] = defaultdict(list)
    for block in blocks:
        found[block.arm].append(block)
    return found


def _surely_more_ns(costs: Sequence[Mapping[str, float]], arm: str, share: float, least_ns: float) -> float:
    """Return by what an arm's costs exceed those of its peer and of the baseline; 0 unless they surely do.

    The second baseline is charged nothing: it puts nothing off, and is colder than the first one, which has
    the core more often. Where candidates' blocks hold more calls it has no peer that would show that.

    Args:
        costs: of every round, by arm; arms that have none are absent.
        share: excess over the usual costs up to which nothing is said.
        least_ns: the same as nanoseconds.
    """
    if arm == NULL:
        return 0.0
    both = [found for found in costs if arm in found and BASELINE in found]
    peers = _peers(both, arm)
    pairs = [(found[arm], _usual_ns(found, peers)) for found in both]
    shares = SequentialEvidence([log(max(own, LEAST_NS) / max(usual, LEAST_NS)) for own, usual in pairs])
    if shares.above(log1p(share)) * DEFERRED_ERROR < 1:
        return 0.0
    excess_ns = median(own - usual for own, usual in pairs)
    return excess_ns if excess_ns > least_ns else 0.0


def _peers(costs: Sequence[Mapping[str, float]], arm: str) -> Sequence[str]:
    """Return the arms whose costs are usual for one that has turns as often: the one that tells most first.

    The baseline alone does not tell. Where many arms race it has the core more often than each of them,
    stays warm, and makes the same inputs in a fifth less time: equal arms were charged 2 to 3 % of their
    time. The second baseline tells, if it runs. Without one it is the other candidate with the least costs,
    as multiples of the baseline's in the same rounds: one honest one is enough to charge all that are not.
    When it has left the race, the next one takes its place; when all have, each has its turn as often as the
    baseline, which then tells.
    """
    others = set[str]().union(*costs) - {arm, BASELINE}
    return sorted(others, key=lambda other: (other != NULL, _share_of_usual(costs, other), other))


def _share_of_usual(costs: Sequence[Mapping[str, float]], arm: str) -> float:
    """Return an arm's costs as multiples of the baseline's in the same rounds, median."""
    return median(max(c[arm], LEAST_NS) / max(c[BASELINE], LEAST_NS) for c in costs if arm in c)


def _usual_ns(found: Mapping[str, float], peers: Sequence[str]) -> float:
    """Return what is usual in one round: the costs of the first peer that is in it, or the baseline's."""
    peer = next((peer for peer in peers if peer in found), BASELINE)
    return max(found[BASELINE], found[peer])
