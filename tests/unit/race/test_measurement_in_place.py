"""What counts of calls that are timed inside their tests: gains of a first pass, and the rest of the tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

import pytest

from codeflash_parallel.race.measurement import Block, BlockKind, Round
from codeflash_parallel.race.plan import BASELINE, CostGroup, RacePlan, WorkKind
from codeflash_parallel.race.race_result import Raced
from codeflash_parallel.race.ranking.arm_comparison import ArmComparison
from codeflash_parallel.race.ranking.candidate_ranking import rank
from codeflash_parallel.race.statistics.log_ratios import track
from codeflash_parallel.race.statistics.sequential_test import ArmStanding, InterimState
from codeflash_parallel.result.outcome_codes import Code, Verdict

PLAN = RacePlan(
    groups=(CostGroup(name="a", ns=1), CostGroup(name="b", ns=1)), work=WorkKind.IN_PLACE
).confirmation(10**9)
#: Nanoseconds: a pass over the calls, what a first one takes more, the rest of the tests, and a window itself.
CALLS, COLD, REST, WINDOW = 400_000, 90_000, 2_000_000, 10_000
#: Windows and passes of a block.
WINDOWS, PASSES = 4, 5


def blocks(
    arm: str, first_ns: Sequence[float], later_ns: float, rest: tuple[float, float], random: Random
) -> Iterator[Block]:
    """Yield the blocks of both groups; that which comes first pays for what stays."""
    for kind, passes in ((BlockKind.FIRST, 1), (BlockKind.TIMED, PASSES)):
        for group, once_ns in enumerate(first_ns):
            windows, ns = WINDOWS * passes, once_ns if kind is BlockKind.FIRST else later_ns
            used = round(passes * ns * random.gauss(1, 0.02) + windows * WINDOW)
            rest_ns = round(passes * rest[0] * random.gauss(1, rest[1]))
            yield Block(
                arm=arm,
                kind=kind,
                group=group,
                calls=passes,
                cpu_ns=used,
                wall_ns=used,
                windows=windows,
                rest_ns=rest_ns,
            )


def entry(
    first_ns: float, later_ns: float, rest_ns: float = REST, noise: float = 0.005, once_ns: float = 0
) -> ArmComparison:
    """Return a candidate whose calls take so long in the first pass of a process, and in later ones."""
    random, rounds = Random(1), []
    empty = Block(arm=BASELINE, kind=BlockKind.EMPTY, cpu_ns=20 * WINDOW, wall_ns=20 * WINDOW, windows=20)
    for number in range(12):
        base = blocks(BASELINE, [CALLS + COLD] * 2, CALLS, (REST, noise), random)
        own = blocks("x", [first_ns + once_ns, first_ns], later_ns, (rest_ns, noise), random)
        rounds.append(Round(number=number, layout=number, core=0, blocks=(empty, *base, *own)))
    looks = InterimState(candidates=("x",), standings={"x": ArmStanding.FASTER}, decided=True)
    raced = Raced(
        plan=PLAN,
        candidates=("x",),
        rounds=tuple(rounds),
        tracks={"x": track(rounds, "x", PLAN)},
        looks=looks,
        out={},
        wall_ns=10**9,
        round_ns=10**8,
        stopped="enough",
    )
    return ArmComparison.of(raced, "x")


def gain(found: ArmComparison) -> float:
    return found.speedup.estimate if found.speedup else 0.0


def test_neither_windows_nor_cold_code_nor_what_is_made_once_hides_a_gain() -> None:
    found = entry(CALLS / 2 + COLD, CALLS / 2, once_ns=CALLS)
    assert gain(found) == pytest.approx(2, rel=0.05)
    assert found.doubt is None


def test_a_memo_gains_what_it_saves_in_the_first_pass() -> None:
    assert gain(entry(CALLS + COLD, CALLS / 8)) == pytest.approx(1, abs=0.05)


def test_who_moves_work_into_the_rest_of_the_tests_is_doubted() -> None:
    doubt = entry(CALLS / 2 + COLD, CALLS / 2, REST + 0.9 * CALLS / 2).doubt
    assert doubt is not None
    assert (doubt.code, doubt.reason) == (
        Code.SUSPECT,
        "the rest of its tests takes longer: work was moved there",
    )


def test_a_gain_that_drowns_in_the_rest_of_the_tests_is_doubted() -> None:
    found = entry(0.8 * CALLS + COLD, 0.8 * CALLS, noise=0.2)
    assert found.doubt is not None
    assert "scatters too much" in found.doubt.reason
    said = rank([found.raced], [found.raced], PLAN, {})
    assert (said.verdict, said.of("x").code) == (Verdict.TOO_NOISY, Code.TOO_NOISY)
    assert found.doubt.reason in said.summary
