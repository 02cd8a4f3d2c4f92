"""The work that a race times, its cost and budget, and the specification of an arm."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.comparison.accept_function import AcceptFunction, AcceptQuestion
from codeflash_parallel.check.session.runner_session import (
    RunnerConfig,
    SelectedRun,
    WrapMode,
    selected_run_spec,
)
from codeflash_parallel.config.settings import ComparisonMode, Settings
from codeflash_parallel.process.machine import read_machine
from codeflash_parallel.race.plan import Arm, CostGroup, RacePlan, WorkKind
from codeflash_parallel.race.worker.arm_pool import RaceEnvironment
from codeflash_parallel.race.worker.arm_worker import SampledResult
from codeflash_parallel.result.candidate_model import Candidate
from codeflash_parallel.result.runtime_protocols import Workspace
from codeflash_parallel.run.check_phase.watched_functions import WatchedBaseline
from codeflash_parallel.run.ledger import RunContext

#: An automatic budget is never less than this, in nanoseconds: that of a race and what confirms it.
_LEAST_BUDGET_NS = 45_000_000_000
#: And allows for so many passes over the workload on the baseline.
_BUDGET_PASSES = 60
#: Up to a minute it is generous: calls of 0.3 s take 30 s for the race of nine arms alone. With 30 s it was
#: too noisy in 30 % of drawn races, with 60 in 3 (and 1.05x was found in all of 30 instead of 22).
_GENEROUS_BUDGET_NS = 60_000_000_000
_GENEROUS_PASSES = 200
#: Work that the user has not named, and what is said of it.
_CHOSEN = frozenset({WorkKind.CALLS, WorkKind.IN_PLACE, WorkKind.TESTS, WorkKind.BENCHMARKS})
_INSTEAD = " (other work: --benchmark FILE::FUNCTION or --benchmark-command COMMAND)"


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """Work that is timed.

    Attributes:
        why: why this and nothing else, one clause.
        groups: with their costs on the baseline.
        fields: what the runner's spec says of it.
        notes: what a person should know, sentences.
        unsteady: names of groups, as they were tried, that do not give the same values twice.
        callers: the functions whose calls are timed, where those are not the targets'.
        of: their names, and what of their time is the targets', a clause.
    """

    work: WorkKind
    why: str
    groups: tuple[CostGroup, ...]
    fields: Mapping[str, Any] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()
    unsteady: tuple[str, ...] = ()
    callers: WatchedBaseline | None = None
    of: str = ""

    @property
    def pass_ns(self) -> int:
        """Return what one pass over what is timed of it costs the baseline."""
        return sum(group.pass_ns or group.ns for group in self.groups)

    @property
    def summary(self) -> str:
        """Return what is timed and why, one clause."""
        return f"workload {self.work.value}: {self._size}, because {self.why}"

    @property
    def sentence(self) -> str:
        """Return the same for the result, with what the user could name instead."""
        of_tests = "; the figures are those of whole tests, not of the targets" * (
            self.work is WorkKind.TESTS
        )
        instead = _INSTEAD * (self.work in _CHOSEN)
        return f"{self._size}, because {self.why}{of_tests}{instead}"

    @property
    def _size(self) -> str:
        match self.work:
            case WorkKind.CALLS:
                return _counted(sum(len(group.calls) for group in self.groups), "captured call") + self.of
            case WorkKind.IN_PLACE:
                return "calls inside " + _counted(sum(len(group.tests) for group in self.groups), "test")
            case WorkKind.TESTS | WorkKind.BENCHMARKS:
                return _counted(sum(len(group.tests) for group in self.groups), "test")
            case _:
                return ", ".join(group.name for group in self.groups)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def budget_ns(settings: Settings, workload: Workload, started_ns: int) -> int:
    """Return the wall time that one race may take: what the user says, or what the workload suggests.

    Args:
        settings: of the run.
        workload: of its races.
        started_ns: what the start of a process costs: a confirmation has at least a dozen for each arm.
    """
    if settings.time_budget:
        return int(settings.time_budget * 1e9)
    generous_ns = min(_GENEROUS_BUDGET_NS, _GENEROUS_PASSES * workload.pass_ns)
    return max(_LEAST_BUDGET_NS, generous_ns, _BUDGET_PASSES * (started_ns + workload.pass_ns))


#: Cores from which on processes are started beside rounds.
_CORES_AHEAD = 2


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


def ground_of(context: RunContext, workload: Workload) -> tuple[RunnerConfig, Baseline]:
    """Return the runner configuration and the baseline of the timed calls."""
    ground = workload.callers or context
    return ground.runner, ground.baseline


@dataclass(frozen=True, kw_only=True, slots=True)
class RaceJury:
    """The user's judge of results in a race (`race.worker.arm_worker`)."""

    judge: AcceptFunction
    baseline: Baseline

    def accepts(self, call: int, digest: str, /) -> bool:
        """Return whether a result was accepted before, or is the baseline's."""
        expected = self.baseline.expected_call(call)
        if expected is None:
            return False
        return digest == expected.digest or not self.judge.why_not(expected.index, digest)

    async def refused(self, results: Sequence[SampledResult], /) -> Mapping[str, str]:
        """Return the arms of which a result is not accepted, and why, one clause each.

        Raises:
            UsageError: `BAD_JUDGE`.
        """
        await self.judge.ask(self.baseline, filter(None, map(self._question, results)))
        found = {result.arm: why for result in reversed(results) if (why := self._objection(result))}
        return {
            arm: f"a timed call gives a result that {self.judge.place} {why}" for arm, why in found.items()
        }

    def _question(self, result: SampledResult) -> AcceptQuestion | None:
        expected = self.baseline.expected_call(result.call)
        if expected is None or not result.plain:
            return None
        return AcceptQuestion(call=expected.index, digest=result.digest, plain=result.plain)

    def _objection(self, result: SampledResult) -> str:
        """Return why a result is not accepted; empty: it is."""
        expected = self.baseline.expected_call(result.call)
        if expected is None or not result.plain:
            return f"cannot be given: it holds {result.untold or 'nothing'}"
        why = self.judge.why_not(expected.index, result.digest)
        return why and f"does not accept ({expected.test}): {why}"


def bench_of(context: RunContext) -> RaceEnvironment:
    """Return what arms are run with."""
    judge = context.plan.judge
    return RaceEnvironment(
        launcher=context.setup.launcher,
        runner_dir=context.runner.directory,
        limits=context.plan.limits,
        jury=None if judge is None else RaceJury(judge=judge, baseline=context.baseline),
    )


def arm(
    context: RunContext, workload: Workload, name: str, workspace: Workspace, candidate: Candidate | None
) -> Arm:
    """Return one competitor."""
    prove = tuple(edit.path for edit in candidate.edits) if candidate else ()
    if workload.work in {WorkKind.TESTS, WorkKind.IN_PLACE, WorkKind.BENCHMARKS}:
        tests = tuple(test for group in workload.groups for test in group.tests)
        wrap = WrapMode.ANNOUNCE if workload.work is WorkKind.IN_PLACE else WrapMode.NONE
        run = SelectedRun(prove=prove, only=tests, wrap=wrap)
        spec = {**selected_run_spec(context.runner, workspace, context.baseline, run), **workload.fields}
    else:
        runner, baseline = ground_of(context, workload)
        spec = runner.spec("arm", prove, inputs=baseline.inputs, **workload.fields)
    return Arm(id=name, workspace=workspace, spec={**spec, **comparing(context.settings, workload)})


def comparing(settings: Settings, workload: Workload) -> dict[str, Any]:
    """Return the fields of a runner's spec that say which outcomes are compared.

    An exception where the baseline returns always counts. What the user's judge is asked about need not be
    equal; other work than the targets' calls is none of it.
    """
    if settings.accept:
        compared = "judged" if workload.work is WorkKind.CALLS else "returns"
        return {"compare": compared, "unsteady": workload.unsteady}
    alone = workload.work in {WorkKind.CALLABLE, WorkKind.COMMAND}
    lenient = settings.compare is ComparisonMode.PASS_FAIL or (alone and workload.unsteady)
    if workload.work is WorkKind.CALLS and workload.unsteady and not lenient:
        return {"compare": "alike", "unsteady": workload.unsteady}
    exact = "values" if settings.strict or workload.work is not WorkKind.CALLS else "rounded"
    near = "floatless" if settings.rtol or settings.atol else exact
    return {"compare": "returns" if lenient else near, "unsteady": workload.unsteady}
