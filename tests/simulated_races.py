"""Races of simulated arms, judged and recorded as the engine does it with real ones."""

from __future__ import annotations

from math import exp
from random import Random

from codeflash_parallel.benchmark.plan import BASELINE, NULL, Group, RacePlan, RaceStage
from codeflash_parallel.benchmark.policy import Merit
from codeflash_parallel.benchmark.raced import Raced
from codeflash_parallel.benchmark.rank import rank
from codeflash_parallel.benchmark.record import ExclusionRecord, RaceRecord, RankingRecord, RunRecord
from codeflash_parallel.benchmark.referee import judge
from codeflash_parallel.benchmark.samples import Block, BlockKind, Round
from codeflash_parallel.benchmark.tracks import track
from codeflash_parallel.engine.race_phase import without

PLAN = RacePlan(groups=(Group(name="all", ns=1),))
CONFIRM = PLAN.confirmation(10**9)
RUN = RunRecord(run_id="r", seed=1, policy="fastest", version="0.1.0")
MERITS = {name: Merit(changed_lines=count) for name, count in (("fast", 3), ("twin", 1), ("same", 2))}


def block(arm, ns):
    return Block(arm=arm, kind=BlockKind.TIMED, calls=10, cpu_ns=ns, wall_ns=ns)


def held(gains, plan, seed=1, out=None):
    """Measure simulated arms and judge them as the race does."""
    random = Random(seed)
    arms = {**gains, **({NULL: 1.0} if plan.stage is RaceStage.CONFIRMATION else {})}
    rounds = []
    for number in range(24):
        blocks = [block(BASELINE, 6_000_000)]
        for arm, gain in arms.items():
            blocks += [block(arm, int(6_000_000 / gain * exp(random.gauss(0, 0.01)))), blocks[0]]
        rounds.append(Round(number=number, layout=number // plan.layout_rounds, core=0, blocks=tuple(blocks)))
    out = out or {}
    return Raced(
        plan=plan, candidates=tuple(gains), rounds=tuple(rounds),
        tracks={arm: track(rounds, arm, plan) for arm in arms}, looks=judge(rounds, tuple(gains), plan, out),
        out=out, wall_ns=10**9, round_ns=10**8, stopped="enough",
    )  # fmt: skip


def recorded(race, confirmations, out=None):
    """Conclude as the engine does; return the records."""
    records = [RUN, RaceRecord(stage=RaceStage.RACE, outcome=race)]
    records += [RaceRecord(stage=RaceStage.CONFIRMATION, outcome=outcome) for outcome in confirmations]
    races = [race]
    if out:
        records.append(ExclusionRecord(out=out))
        races, confirmations = without(races, out), without(confirmations, out)
    ranking = rank(races, confirmations, PLAN, MERITS)
    records.append(RankingRecord(plan=PLAN, merits=MERITS, ranking=ranking))
    return records
