"""What arms do beside being timed: other outcomes, processes left behind, work moved to import. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import sqrt
from statistics import fmean, stdev

from codeflash_parallel.race.measurement import Block, BlockKind, Round
from codeflash_parallel.race.plan import BASELINE, NULL
from codeflash_parallel.race.race_result import Disqualification
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code

#: A process may need this share and so many nanoseconds more than the baseline's to become ready: changed
#: modules are compiled anew, and a small table is nobody's cheat.
START_SHARE = 0.25
START_NS = 50_000_000

#: What is beyond that must be by so many standard errors, over so many layouts.
START_ERRORS = 3.0
START_LAYOUTS = 3

#: Nanoseconds in a second.
SECOND = 1e9


def misconduct(rounds: Sequence[Round]) -> Mapping[str, Disqualification]:
    """Return the arms that are out for what they did in the rounds of one race so far, and why."""
    found = {arm: _slow_start(surplus_ns) for arm, surplus_ns in starting_longer(rounds).items()}
    found.update(dict.fromkeys(leaking(rounds), _LEAKING))
    found.update(dict.fromkeys(disagreeing(rounds), _DIFFERING))
    return found


_DIFFERING = Disqualification(
    status=CandidateStatus.REJECTED,
    code=Code.NOT_CONFIRMED,
    reason="its outcomes in a timed unit differ from the baseline's",
)
_LEAKING = Disqualification(
    status=CandidateStatus.REJECTED,
    code=Code.LEAKED_PROCESS,
    reason="its timed calls leave processes behind, which the baseline's do not",
)


def _slow_start(surplus_ns: float) -> Disqualification:
    """Return what is said of an arm whose process needs so much longer to become ready."""
    more = f"its import takes {surplus_ns / SECOND:.2f} s of CPU time more than the baseline's"
    return Disqualification(
        status=CandidateStatus.LOST, code=Code.NOT_CONFIRMED, reason=f"{more}: work was moved there"
    )


def starting_longer(rounds: Sequence[Round]) -> Mapping[str, float]:
    """Return the arms that surely need more CPU time to become ready than is allowed, and how much more.

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
        arm: fmean(by_layout.values())
        for arm, by_layout in surplus.items()
        if _is_over([*by_layout.values()], START_NS + START_SHARE * fmean(baseline[arm].values()))
    }


def _is_over(values: Sequence[float], cap: float) -> bool:
    """Return whether the mean of some values is surely over a cap."""
    if len(values) < START_LAYOUTS:
        return False
    return fmean(values) - START_ERRORS * stdev(values) / sqrt(len(values)) > cap


def leaking(rounds: Sequence[Round]) -> frozenset[str]:
    """Return the arms that had more processes left at the end of a block than the baseline ever had."""
    blocks = [block for round_ in rounds for block in round_.blocks]
    usual = max((b.children for b in blocks if b.arm == BASELINE), default=0)
    return frozenset(b.arm for b in blocks if b.children > usual) - {NULL}


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


#: So often must the baseline have given the same outcomes, in any layout, before an arm is held to them.
WITNESSES = 2


def disagreeing(rounds: Sequence[Round]) -> frozenset[str]:
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
    return frozenset(b.arm for work, b in _digests(rounds) if known.get(work, b.digest) != b.digest)


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
