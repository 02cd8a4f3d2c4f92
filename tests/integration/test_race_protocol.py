"""The race against a stand-in arm that speaks the protocol: real processes, real clocks, wrong behaviour."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import anyio
import pytest

from codeflash_parallel.benchmark.decide import Standing
from codeflash_parallel.benchmark.plan import NULL, Arm, Group, RacePlan
from codeflash_parallel.benchmark.race import race
from codeflash_parallel.benchmark.raced import Raced, RaceFailed
from codeflash_parallel.benchmark.rank import contenders, rank
from codeflash_parallel.benchmark.samples import BlockKind, Clock
from codeflash_parallel.benchmark.unit import Bench
from codeflash_parallel.model.outcome import Code, Status, Verdict
from codeflash_parallel.model.workspace import Limits, Workspace
from codeflash_parallel.process.launcher import open_launcher

pytestmark = [pytest.mark.anyio, pytest.mark.engine]

FAKE = Path(__file__).with_name("fake_arm.py")
#: Loops of one call of the baseline, about 0.15 ms.
LOOPS = 4000


class Stadium:
    """Makes arms that run the stand-in."""

    def __init__(self, folder: Path, bench: Bench, groups: int) -> None:
        self.folder, self.bench = folder, bench
        self.plan = RacePlan(
            groups=tuple(Group(name=f"g{i}", ns=10**6, calls=tuple(range(10))) for i in range(groups)),
            cores=tuple(os.sched_getaffinity(0)),
            block_ns=4_000_000,
        )

    def arm(self, name, loops=LOOPS, act=""):
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        workspace = Workspace(
            root=folder, project=folder, user_root=folder, interpreter=Path(sys.executable),
            private=folder, environment={"PATH": os.environ["PATH"]},
        )  # fmt: skip
        by_group = loops if isinstance(loops, list) else [loops] * len(self.plan.groups)
        return Arm(id=name, workspace=workspace, spec={"fake": {"loops": by_group, "act": act}})

    async def race(self, *arms, baseline=None, plan=None, progress=lambda _round, _of: None):
        first = baseline or self.arm("baseline")
        return await race(self.bench, first, arms, plan or self.plan, random=Random(1), progress=progress)


@asynccontextmanager
async def open_stadium(folder: Path, groups: int = 1) -> AsyncIterator[Stadium]:
    package = folder / "guest" / "_codeflash_guest"
    package.mkdir(parents=True)
    (package / "__main__.py").write_bytes(FAKE.read_bytes())
    async with open_launcher() as launcher:
        bench = Bench(runner=launcher, guest_dir=folder / "guest", limits=Limits(wall_s=60))
        yield Stadium(folder, bench, groups)


async def test_a_clear_winner_is_found_and_confirmed(tmp_path):
    async with open_stadium(tmp_path) as stadium:
        seen = []
        arms = {
            a.id: a
            for a in (stadium.arm("same"), stadium.arm("fast", LOOPS // 2), stadium.arm("slow", LOOPS * 2))
        }
        raced = await stadium.race(*arms.values(), progress=lambda number, of: seen.append((number, of)))
        confirmations = []
        while ids := contenders([raced], confirmations, stadium.plan, limit=2):
            again = stadium.plan.confirmation(30 * 10**9)
            confirmations.append(await stadium.race(*(arms[i] for i in ids), plan=again))

    ranking = rank([raced], confirmations, stadium.plan, {})
    assert raced.standings["slow"] is Standing.HOPELESS
    assert (ranking.verdict, ranking.winner) == (Verdict.WINNER, "fast")
    assert 1.5 < ranking.of("fast").speedup.estimate < 2.6
    assert seen[0] == (1, 48)
    assert NULL in confirmations[0].tracks
    assert len({r.layout for r in confirmations[0].rounds}) == len(confirmations[0].rounds)


ACTS = {
    "crash": (Status.UNDECIDED, Code.NOT_CONFIRMED, "status"),
    "hang": (Status.LOST, Code.NOT_FASTER, "not done after"),
    "wrong": (Status.REJECTED, Code.NOT_CONFIRMED, "differ"),
    "random": (Status.REJECTED, Code.NOT_CONFIRMED, "differ"),
    "no-ready": (Status.UNDECIDED, Code.NOT_CONFIRMED, "cannot import the target"),
    "garbage": (Status.UNDECIDED, Code.NOT_CONFIRMED, "protocol"),
    "foreign": (Status.UNDECIDED, Code.NOT_CONFIRMED, "not its own"),
}


async def test_arms_that_misbehave_are_out_with_a_reason_and_break_nothing(tmp_path):
    async with open_stadium(tmp_path) as stadium:
        arms = [stadium.arm(act, act=act) for act in ACTS]
        raced = await stadium.race(*arms, stadium.arm("fast", LOOPS // 2))

    assert raced.standings["fast"] is Standing.FASTER
    assert {*raced.out} == {*ACTS}
    for act, (status, code, words) in ACTS.items():
        assert (raced.out[act].status, raced.out[act].code) == (status, code), act
        assert words in raced.out[act].reason


@pytest.mark.parametrize("act", ["crash", "no-ready", "garbage", "foreign"])
async def test_a_baseline_that_fails_blames_nobody(tmp_path, act):
    async with open_stadium(tmp_path) as stadium:
        raced = await stadium.race(stadium.arm("a"), baseline=stadium.arm("baseline", act=act))

    assert isinstance(raced, RaceFailed)
    assert raced.candidates == ("a",)


async def test_outcomes_that_the_baseline_does_not_repeat_are_not_compared(tmp_path):
    async with open_stadium(tmp_path) as stadium:
        baseline = stadium.arm("baseline", act="random")
        raced = await stadium.race(stadium.arm("a", LOOPS // 2, act="random"), baseline=baseline)

    assert raced.out == {}
    assert raced.standings["a"] is Standing.FASTER
    assert "g0" in raced.notes[0]


async def test_work_of_children_and_waiting_are_seen_by_the_wall_clock(tmp_path):
    short = 10 * LOOPS  # long enough that forking is not the larger part of a call
    async with open_stadium(tmp_path) as stadium:
        arms = [stadium.arm("children", short, act="children"), stadium.arm("sleep", LOOPS, act="sleep")]
        raced = await stadium.race(*arms, baseline=stadium.arm("baseline", short))

    assert raced.tracks["children"].clock is Clock.WALL
    assert raced.tracks["sleep"].clock is Clock.WALL
    assert raced.standings["children"] is not Standing.FASTER


async def test_a_cache_is_not_credited(tmp_path):
    async with open_stadium(tmp_path) as stadium:
        plan = stadium.plan.confirmation(30 * 10**9)
        raced = await stadium.race(stadium.arm("cache", act="cache"), plan=plan)

    ranking = rank([raced], [raced], stadium.plan, {})
    assert ranking.verdict is Verdict.SUSPECT, (raced.tracks, raced.standings)
    assert "cache" in ranking.summary


async def test_a_group_that_becomes_slower_is_vetoed(tmp_path):
    async with open_stadium(tmp_path, groups=2) as stadium:
        mixed = stadium.arm("mixed", [LOOPS // 4, LOOPS * 5 // 4])
        raced = await stadium.race(mixed)

    assert raced.standings["mixed"] is Standing.REGRESSES
    assert rank([raced], [], stadium.plan, {}).of("mixed").code is Code.REGRESSES_TEST


async def test_long_calls_are_timed_once_a_round(tmp_path):
    async with open_stadium(tmp_path) as stadium:
        raced = await stadium.race(stadium.arm("a", LOOPS * 20), baseline=stadium.arm("baseline", LOOPS * 60))

    kinds = {block.kind for round_ in raced.rounds for block in round_.blocks}
    assert BlockKind.COLD not in kinds
    assert raced.standings["a"] is Standing.FASTER


@pytest.mark.parametrize(("loops", "words"), [(LOOPS * 300, "needs about"), (LOOPS * 20_000, "one pass")])
async def test_a_race_that_cannot_fit_its_budget_is_not_begun(tmp_path, loops, words):
    async with open_stadium(tmp_path) as stadium:
        tight = RacePlan(groups=stadium.plan.groups, budget_ns=3_000_000_000)
        raced = await stadium.race(stadium.arm("a"), baseline=stadium.arm("baseline", loops), plan=tight)

    assert isinstance(raced, Raced)
    assert raced.rounds == ()
    assert words in raced.stopped or "one pass" in raced.stopped  # a busy machine may make it so
    ranking = rank([raced], [], tight, {})
    assert (ranking.verdict, ranking.of("a").code) == (Verdict.TOO_NOISY, Code.TOO_NOISY)


async def test_the_budget_ends_a_race(tmp_path):
    async with open_stadium(tmp_path) as stadium:
        short = RacePlan(groups=stadium.plan.groups, cores=stadium.plan.cores, budget_ns=1_000_000_000)
        raced = await stadium.race(stadium.arm("a"), stadium.arm("b"), plan=short)

    assert raced.wall_ns < 4 * 10**9
    assert len(raced.rounds) < 48 or raced.wall_ns < 10**9


async def test_no_candidates_no_race(tmp_path):
    async with open_stadium(tmp_path) as stadium:
        raced = await stadium.race()

    assert (raced.candidates, raced.rounds) == ((), ())
    assert rank([raced], [], stadium.plan, {}).verdict is Verdict.NOTHING_FASTER


async def test_cancelling_leaves_no_process(tmp_path):
    async with open_stadium(tmp_path) as stadium:
        with anyio.CancelScope() as scope:
            await stadium.race(stadium.arm("a"), progress=lambda _round, _of: scope.cancel())

        assert scope.cancelled_caught
        assert not processes_of(tmp_path)


def processes_of(folder):
    return [p for p in Path("/proc").glob("[0-9]*/cmdline") if str(folder).encode() in _bytes(p)]


def _bytes(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""
