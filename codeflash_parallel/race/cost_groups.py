"""Cost groups: calls and tests that are timed together, and what one pass over them costs the baseline."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from codeflash_parallel.race.measurement import BlockKind
from codeflash_parallel.race.plan import BASELINE, HEAVY_TESTS, Arm, CostGroup, RacePlan
from codeflash_parallel.race.race_result import ArmFailure, ArmWorkTimeout
from codeflash_parallel.race.worker.arm_pool import ArmPool, RaceEnvironment, open_field
from codeflash_parallel.race.worker.arm_worker import ArmWorker, BlockRequest

#: A test lighter than this share of the baseline's time is pooled: a group of its own would cost more
#: race time than it tells.
ALONE_SHARE = 0.10

#: A pool lighter than this is merged with the lightest group, for the same reason.
POOL_SHARE = 0.02

#: Captured calls in one cycle of a group at most; more tell little and their copies cost memory.
MAX_CALLS = 200


#: What one pass over all groups may take, copies of its inputs included. Texts are copied at about 1 ns a
#: byte, graphs of objects at 100 and more: copies take 100 MB at most, and mostly far less.
PASS_NS = 100_000_000

#: A call whose inputs take more than so many times as long to copy is not timed where others are: the time
#: would go into copies.
DEAR_COPY = 3

#: ... if these have at least this share of the time.
LEFT_SHARE = 0.5


class CallCost(NamedTuple):
    """A captured call of the baseline: its number in the inputs file, its test, its CPU time.

    `inputs` is what calls of one target with equal inputs share; an empty one is like no other. `copy_ns` is
    what making them again costs.
    """

    call: int
    test: str
    ns: int
    inputs: str = ""
    copy_ns: int = 0

    @property
    def pass_ns(self) -> int:
        """Nanoseconds that the call adds to a pass."""
        return self.ns + self.copy_ns


def cost_groups(
    calls: Sequence[tuple[int, str, int] | tuple[int, str, int, str] | CallCost],
    *,
    cycle_ns: int = 4_000_000,
    max_calls: int = MAX_CALLS,
    pass_ns: int = PASS_NS,
) -> tuple[CostGroup, ...]:
    """Pool captured calls into at most four cost groups, so that cost does not grow with the number of tests.

    Of calls with equal inputs one is timed, whoever makes them, and weighs as much as all: a first pass over
    the calls of a group is one over inputs that the process has never seen, or caches would pass for speed.

    Args:
        calls: `CallCost` of every captured call (a plain tuple will do).
        cycle_ns: what one pass over a group's calls should cost the baseline at most.
        max_calls: calls in one group at most.
        pass_ns: what one pass over all groups may cost, their inputs' copies included, with a call of each.
    """
    lots = _equal([CallCost(*call) for call in calls])
    pools = _pools([(lot[0].test, _total_ns(lot)) for lot in lots])
    homes = _homes(lots)
    groups = []
    for pool in pools:
        inside = frozenset(pool)
        members = [lot for lot in lots if lot[0].test in inside]
        tests = (*pool, *sorted(test for test, home in homes.items() if home in inside))
        sample = _sample([_one_of(lot) for lot in members], cycle_ns, max_calls, pass_ns // len(pools))
        groups.append(
            CostGroup(
                name=_name(tests),
                ns=sum(map(_total_ns, members)),
                calls=tuple(sorted(cost.call for cost in sample)),
                tests=tests,
                pass_ns=sum(cost.pass_ns for cost in sample),
            )
        )
    return tuple(groups)


def _equal(calls: Sequence[CallCost]) -> list[Sequence[CallCost]]:
    """Split calls by their inputs, in the order in which those came first."""
    lots: dict[str | int, list[CallCost]] = defaultdict(list)
    for call in calls:
        lots[call.inputs or call.call].append(call)
    return [*lots.values()]


def _homes(lots: Sequence[Sequence[CallCost]]) -> dict[str, str]:
    """Return the tests of which no call is timed, each with the test of which the first of its calls is."""
    own = {lot[0].test for lot in lots}
    return {call.test: lot[0].test for lot in reversed(lots) for call in lot if call.test not in own}


def _total_ns(lot: Sequence[CallCost]) -> int:
    return sum(max(call.ns, 1) for call in lot)


def _one_of(lot: Sequence[CallCost]) -> CallCost:
    """Return the first of equal calls, at what they take on average."""
    return lot[0]._replace(ns=_total_ns(lot) // len(lot))


def whole_test_groups(tests: Sequence[tuple[str, int]]) -> tuple[CostGroup, ...]:
    """Pool whole tests, given as (id, baseline nanoseconds), in the same way."""
    times = dict(tests)
    return tuple(
        CostGroup(name=_name(pool), ns=sum(max(times[test], 1) for test in pool), tests=pool)
        for pool in _pools(tests)
    )


def _name(tests: tuple[str, ...]) -> str:
    return tests[0] if len(tests) == 1 else f"{len(tests)} tests"


def _pools(costs: Sequence[tuple[str, int]]) -> list[tuple[str, ...]]:
    """Split tests into those heavy enough to stand alone, the heaviest first, and the pool of the rest."""
    totals: dict[str, int] = defaultdict(int)
    for test, ns in costs:
        totals[test] += max(ns, 1)
    whole = sum(totals.values())
    ranked = sorted(totals, key=lambda test: (-totals[test], test))
    alone = [(test,) for test in ranked[:HEAVY_TESTS] if totals[test] >= ALONE_SHARE * whole]
    rest = tuple(ranked[len(alone) :])
    if alone and sum(totals[test] for test in rest) < POOL_SHARE * whole:
        return [*alone[:-1], alone[-1] + rest]
    return [*alone, rest] if rest else list(alone)


def _sample(calls: Sequence[CallCost], cycle_ns: int, max_calls: int, pass_ns: int) -> list[CallCost]:
    """Choose calls evenly by rank of cost, the dearest always among them, of which a pass is not too long."""
    ranked = sorted(_cheap_to_copy(calls), key=lambda cost: (cost.ns, cost.call))
    mean_ns = sum(max(call.ns, 1) for call in ranked) / len(ranked)
    count = min(len(ranked), max_calls, max(1, int(cycle_ns / mean_ns)))
    chosen = _spread(ranked, count)
    while count > 1 and sum(cost.pass_ns for cost in chosen) > pass_ns:
        count = count * 3 // 4
        chosen = _spread(ranked, count)
    return chosen


def _cheap_to_copy(calls: Sequence[CallCost]) -> Sequence[CallCost]:
    """Return the calls whose inputs are copied fast, or all where those would stand for too little."""
    cheap = [call for call in calls if call.copy_ns <= DEAR_COPY * call.ns]
    return cheap if _total_ns(cheap) >= LEFT_SHARE * _total_ns(calls) else calls


def _spread(ranked: Sequence[CallCost], count: int) -> list[CallCost]:
    return [ranked[len(ranked) - 1 - (step * len(ranked)) // count] for step in range(count)]


#: How the reason of a process begins that ends by itself; why it did says more.
_NO_START = "ended before its time"

#: Hash seed of the process; any would do, but two runs are to see the same.
_HASH_SEED = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class BaselineProbe:
    """Costs and steadiness of the work on the baseline.

    Attributes:
        costs_ns: of one pass over each group, in the order of the plan: CPU time and waiting; at least 1.
        unsteady: indices of the groups that do not give the same outcomes twice.
        windows: calls of the targets in each group that are timed in place, and what one of them takes.
    """

    costs_ns: tuple[int, ...]
    unsteady: tuple[int, ...]
    windows: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class UntimeableWork:
    """The work cannot be timed on the baseline; the reason is one clause about it."""

    reason: str


async def probe(
    bench: RaceEnvironment, baseline: Arm, plan: RacePlan, *, deadline_s: float
) -> BaselineProbe | UntimeableWork:
    """Run every group of a plan on the baseline, twice, in one unit. Cancelling kills it.

    For work of which a group is always run whole.

    Args:
        bench: what arms are run with.
        baseline: its `id` is not used.
        plan: for its work and its groups.
        deadline_s: wall seconds that one pass over one group may take.
    """
    try:
        async with open_field(bench, [replace(baseline, id=BASELINE)], plan, _HASH_SEED) as field:
            return await _probed(field, plan, deadline_s)
    except ArmFailure as lost:
        return _unfit(lost, deadline_s)


async def _probed(field: ArmPool, plan: RacePlan, deadline_s: float) -> BaselineProbe | UntimeableWork:
    if BASELINE not in field.lost:
        try:
            return await _passes(await field.templates[BASELINE].fork(0, -1), plan, deadline_s)
        except ArmFailure as error:
            await field.lose(BASELINE, error)
    return _unfit(field.lost[BASELINE], deadline_s)


def _unfit(lost: ArmFailure, deadline_s: float) -> UntimeableWork:
    slow = isinstance(lost, ArmWorkTimeout)
    said = lost.reason.removeprefix(f"{_NO_START}: ")
    return UntimeableWork(reason=f"one call of it was not done after {deadline_s:g} s" if slow else said)


async def _passes(unit: ArmWorker, plan: RacePlan, deadline_s: float) -> BaselineProbe | UntimeableWork:
    costs_ns, unsteady, windows = [], [], []
    empty = await unit.block(BlockRequest(kind=BlockKind.EMPTY, is_checked=False), deadline_s)
    window_ns = empty.cpu_ns / max(1, empty.windows)
    for group in range(len(plan.groups)):
        job = BlockRequest(kind=BlockKind.FIRST, group=group, calls=1)
        first = await unit.block(job, deadline_s)
        if unit.said:
            return UntimeableWork(reason=unit.said)
        # The first one pays for what the next one finds done.
        again = await unit.block(job, deadline_s)
        costs_ns.append(max(1, again.cpu_ns + again.waited_ns + again.rest_ns))
        windows.append((first.windows, first.cpu_ns / max(1, first.windows) - window_ns))
        if first.digest != again.digest:
            unsteady.append(group)
    return BaselineProbe(costs_ns=tuple(costs_ns), unsteady=tuple(unsteady), windows=tuple(windows))
