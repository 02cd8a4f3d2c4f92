"""The race of a gate, and what it found."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import log1p
from random import SystemRandom

from codeflash_parallel.gate.benchmark_trial import GateSide, GateWork
from codeflash_parallel.gate.gate_result import load_now
from codeflash_parallel.process.machine import read_machine
from codeflash_parallel.race.measurement import Round
from codeflash_parallel.race.plan import NULL, RacePlan, RaceStage
from codeflash_parallel.race.race import RaceJudge, race
from codeflash_parallel.race.race_result import Disqualification, Raced, RaceFailed
from codeflash_parallel.race.statistics.sequential_test import ArmStanding, InterimState, drop
from codeflash_parallel.race.statistics.slowdown_test import (
    BenchmarkRounds,
    Change,
    Decision,
    GateRules,
    decide,
)
from codeflash_parallel.result.outcome_codes import Code

#: Id of the head among the arms.
HEAD = "head"

#: The budget ends a race, and nothing else.
_ROUNDS = 100_000
#: Cores from which on processes are started beside rounds.
_CORES_AHEAD = 2


def gate_plan(work: GateWork, budget_s: float, cores: Collection[int]) -> RacePlan:
    """Return the rules of a race without groups.

    Args:
        work: what is timed.
        budget_s: wall seconds.
        cores: that we may use.
    """
    machine = read_machine()
    return RacePlan(
        groups=(),
        work=work.kind,
        stage=RaceStage.CONFIRMATION,
        budget_ns=int(budget_s * 1e9),
        least_rounds=0,
        max_rounds=_ROUNDS,
        ahead=min(machine.cores, machine.quota_cores) >= _CORES_AHEAD,
        cores=tuple(sorted(cores)),
    )


class GateLook:
    """Decides after every set of processes of a race.

    Args:
        rules: of the gate.
        planted: slowdown that is added to what was measured, to see when it would be red; 0: none.

    Attributes:
        decision: the last one.
        lanes: of the head, by benchmark; see `BenchmarkRounds.lanes`.
        layouts: sets of processes that were looked at.
        planted_s: seconds after which what was planted was red.
    """

    def __init__(self, rules: GateRules, planted: float = 0.0) -> None:
        self._rules, self._planted = rules, planted
        self._began = time.monotonic()
        self.taken: BenchmarkRounds | None = None
        self.names: tuple[str, ...] = ()
        self.decision: Decision | None = None
        self.lanes: list[dict[int, float]] = []
        self.layouts = 0
        self.planted_s: float | None = None

    def __call__(
        self, state: InterimState, rounds: Sequence[Round], plan: RacePlan, out: Collection[str]
    ) -> InterimState:
        """Return the state after a round: decided where more rounds would change nothing that is said."""
        if out:
            return drop(state, out, ArmStanding.OUT, {})
        if self.taken is None:
            self.taken, self.names = BenchmarkRounds(plan), tuple(group.name for group in plan.groups)
        self.taken.add(rounds)
        complete = len(self.taken.complete)
        if complete == self.layouts:
            return state
        self.layouts, self.lanes = complete, self.taken.lanes(HEAD)
        self.decision = decide(self.lanes, self._rules)
        return replace(state, decided=self.decision.is_final and self._finds_planted())

    def _finds_planted(self) -> bool:
        if self._planted and self.planted_s is None:
            loss = log1p(self._planted)
            slower = [{layout: value - loss for layout, value in lane.items()} for lane in self.lanes]
            if decide(slower, self._rules).verdict is Change.SLOWER:
                self.planted_s = time.monotonic() - self._began
        return not self._planted or self.planted_s is not None

    def alarms(self, lanes: Sequence[Mapping[int, float]]) -> tuple[str, ...]:
        """Return the benchmarks (or `total`) that are called slower or faster, of arms that are the same."""
        decision = decide(lanes, self._rules)
        named = zip((*self.names, "total"), (*decision.changes, decision.total), strict=True)
        return tuple(name for name, change in named if change in {Change.SLOWER, Change.FASTER})


@dataclass(frozen=True, kw_only=True, slots=True)
class GateFinding:
    """Everything that the race of a gate found.

    Attributes:
        lanes: log-ratios of each benchmark that was raced, by set of processes.
        why_void: why nothing of it counts, one sentence; empty: it does.
        why_slower: why the head is slower, whatever the figures say; empty: they say it.
        null_arm: whether the base raced against itself as well, to the end.
        load: before and after.
    """

    names: tuple[str, ...] = ()
    decision: Decision | None = None
    lanes: Sequence[Mapping[int, float]] = ()
    clocks: Sequence[str] = ()
    layouts: int = 0
    rounds: int = 0
    seconds: float = 0.0
    why_void: str = ""
    why_slower: str = ""
    null_arm: bool = False
    load: tuple[float, float] = (0.0, 0.0)
    planted_s: float | None = None
    alarms: tuple[str, ...] = field(default=())


async def hold(
    base: GateSide, head: GateSide, work: GateWork, plan: RacePlan, rules: GateRules, planted: float = 0.0
) -> GateFinding:
    """Race the head against the base, until all is decided or the budget is spent. Cancelling kills the arms.

    The caller sees to it that nothing else of ours runs meanwhile.
    """
    names, load = [group.name for group in plan.groups], load_now()
    look = GateLook(rules, planted)
    outcome = await race(
        base.bench,
        base.arm(work, names),
        [replace(head.arm(work, names), id=HEAD)],
        plan,
        random=SystemRandom(),
        judge=RaceJudge(look=look, misconduct=_no_misconduct, by_layout=True),
    )
    loads = (load, load_now())
    if isinstance(outcome, RaceFailed):
        return GateFinding(why_void=outcome.reason, load=loads)
    void, lost = why_void(look, outcome), outcome.out.get(HEAD)
    return GateFinding(
        names=look.names,
        decision=look.decision,
        lanes=look.lanes,
        clocks=[clock.value for clock in look.taken.clocks(HEAD)] if look.taken else (),
        layouts=look.layouts,
        rounds=len(outcome.rounds),
        seconds=outcome.wall_ns / 1e9,
        why_void=void,
        why_slower=f"The head takes many times as long: {lost.reason}." if lost and not void else "",
        null_arm=NULL in _arms(outcome.rounds[-1:]),
        load=loads,
        planted_s=look.planted_s,
        alarms=look.alarms(look.lanes) if look.lanes else (),
    )


def why_void(look: GateLook, outcome: Raced) -> str:
    """Return why a race does not count, one sentence; empty: it does.

    Args:
        look: that decided it.
        outcome: of the race; a head that was not done in many times the base's time is no reason.
    """
    lost = outcome.out.get(HEAD)
    if lost is not None and lost.code is not Code.NOT_FASTER:
        return f"The head could not be timed: {lost.reason}."
    if look.taken is not None and NULL in _arms(outcome.rounds):
        disturbed = look.alarms(look.taken.lanes(NULL))
        if disturbed:
            return f"The race does not count: the base differs from itself ({', '.join(disturbed)})."
    return "" if look.decision or lost else f"Nothing was measured: {outcome.stopped}."


def _no_misconduct(_rounds: Sequence[Round]) -> Mapping[str, Disqualification]:
    """Let the head do what it likes: it need not be equivalent."""
    return {}


def _arms(rounds: Sequence[Round]) -> set[str]:
    return {block.arm for round_ in rounds for block in round_.blocks}
