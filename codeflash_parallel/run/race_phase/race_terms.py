"""What all races of a run have in common: the workload, the rules, and who names the winner of a tie."""

from __future__ import annotations

import os
from dataclasses import dataclass

from codeflash_parallel.config.settings import Settings
from codeflash_parallel.process.machine import read_machine
from codeflash_parallel.race.plan import RacePlan
from codeflash_parallel.race.ranking.ranking_result import Policy
from codeflash_parallel.run.race_phase.workload import Workload, budget_ns
from codeflash_parallel.run.state.run_context import RunContext

#: Cores from which on processes are started beside rounds.
_CORES_AHEAD = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class RaceTerms:
    """What all races of a run have in common.

    Attributes:
        plan: the rules.
        policy: names the winner of a tie.
    """

    workload: Workload
    plan: RacePlan
    policy: Policy

    @property
    def summary(self) -> str:
        """Return what is timed and how long that may take, one clause."""
        return f"{self.workload.summary}; budget {self.plan.budget_ns / 1e9:.0f} s"


def race_terms(context: RunContext, workload: Workload, policy: Policy) -> RaceTerms:
    """Return the terms of a run's races."""
    # A process of a race starts as quickly as one of the tests, which imports and collects more.
    started_ns = context.baseline.cpu_ns - int(context.baseline.suite_s * 1e9)
    plan = race_plan(context.settings, workload, max(0, started_ns))
    return RaceTerms(workload=workload, plan=plan, policy=policy)


def race_plan(settings: Settings, workload: Workload, started_ns: int) -> RacePlan:
    """Return the rules of races; the start of a process counts where the budget is automatic."""
    machine = read_machine()
    return RacePlan(
        groups=workload.groups,
        work=workload.work,
        confidence=settings.confidence,
        min_speedup=settings.min_speedup,
        indifference=settings.indifference,
        max_regression=settings.max_regression,
        max_cpu_cost=settings.max_cpu_cost,
        count_repeats=settings.count_repeats,
        budget_ns=budget_ns(settings, workload, started_ns),
        ahead=min(machine.cores, machine.quota_cores) >= _CORES_AHEAD,
        cores=tuple(sorted(os.sched_getaffinity(0))),
    )
