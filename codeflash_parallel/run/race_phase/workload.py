"""Choice of what a race times: made once a run, tried on the baseline, and told before the race begins."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import Any

from codeflash_parallel.baseline.baseline_findings import timed_calls
from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.session.runner_session import (
    RunnerConfig,
    SelectedRun,
    WrapMode,
    selected_run_spec,
)
from codeflash_parallel.config.settings import ComparisonMode, Settings
from codeflash_parallel.race.plan import Arm, CostGroup, RacePlan, WorkKind
from codeflash_parallel.race.worker.arm_pool import RaceEnvironment
from codeflash_parallel.race.workload.baseline_probe import BaselineProbe, UntimeableWork, probe
from codeflash_parallel.race.workload.cost_groups import (
    DEAR_COPY,
    LEFT_SHARE,
    CallCost,
    cost_groups,
    whole_test_groups,
)
from codeflash_parallel.result.candidate.candidate_model import Candidate, Edit, digest_of
from codeflash_parallel.result.errors import EnvironmentFault, UsageError
from codeflash_parallel.result.runtime_protocols import Workspace
from codeflash_parallel.run.check_phase.target_callers import Callers, callers_of
from codeflash_parallel.run.intake.target_names import named_callable
from codeflash_parallel.run.race_phase.race_judge import jury_of
from codeflash_parallel.run.race_phase.twin_calls import twinned
from codeflash_parallel.run.state.run_context import RunContext

#: An automatic budget is never less than this, in nanoseconds: that of a race and what confirms it.
_LEAST_BUDGET_NS = 45_000_000_000
#: And allows for so many passes over the workload on the baseline.
_BUDGET_PASSES = 60
#: Up to a minute it is generous: calls of 0.3 s take 30 s for the race of nine arms alone. With 30 s it was
#: too noisy in 30 % of drawn races, with 60 in 3 (and 1.05x was found in all of 30 instead of 22).
_GENEROUS_BUDGET_NS = 60_000_000_000
_GENEROUS_PASSES = 200
#: Wall seconds that the first call of what the user names may take where no budget is named.
_LONGEST_CALL_S = 120.0
#: Seconds, and times what it costs, that a command may take that is to fail.
_PATIENCE_S = 10.0
_SLOWER = 3
#: Text of a file that cannot be imported.
_RAISING = b"raise SystemExit('codeflash-parallel looks whether this file is run')\n"
_NO_TWINS = "Gains were not held against unseen inputs: there are no other values of the same shape."
#: And where there are some for less than this part of the time.
_MOST_OF_IT = 0.5
_FEW_TWINS = "Gains were held against unseen inputs for {share:.0%} of the time only: there are no others."
#: Calls that are timed inside their tests take so long on average, and so many of a group are timed at most.
LEAST_WINDOW_NS = 20_000
MOST_WINDOWS = 200
#: Less of their tests' time than this is timed inside them only where no call can be made again: a race would
#: take minutes of tests for each second of the targets.
_LEAST_SHARE = 0.05
#: Cost of a group before it has been found out.
_UNKNOWN_NS = 1


#: Why calls of the targets are not timed by themselves.
_NOT_AGAIN = "most calls of the targets cannot be made again outside their tests, or only by dear copies"
_VARYING = "; what they give is another in each process: only its type, and what is equal, is compared"
#: Work that the user has not named, and what is said of it.
_CHOSEN = frozenset({WorkKind.CALLS, WorkKind.IN_PLACE, WorkKind.TESTS, WorkKind.BENCHMARKS})
_INSTEAD = " (other work: --benchmark FILE::FUNCTION or --benchmark-command COMMAND)"


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """What is timed.

    Attributes:
        why: why this and nothing else, one clause.
        groups: with their costs on the baseline.
        fields: what the guest's spec says of it.
        notes: what a person should know, sentences.
        unsteady: names of groups, as they were tried, that do not give the same values twice.
        callers: the functions whose calls are timed, where those are not the targets'.
    """

    work: WorkKind
    why: str
    groups: tuple[CostGroup, ...]
    fields: Mapping[str, Any] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()
    unsteady: tuple[str, ...] = ()
    callers: Callers | None = None

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
                of = f" {self.callers.words}" if self.callers else ""
                return _counted(sum(len(group.calls) for group in self.groups), "captured call") + of
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


async def choose_workload(context: RunContext) -> Workload:
    """Return what this run's races time: what the user names, else the project's benchmarks, else calls.

    What has not been run yet is run on the baseline first.

    Raises:
        UsageError: what the user names is not there.
        EnvironmentFault: it cannot be timed on the baseline.
    """
    settings, baseline = context.settings, context.baseline
    if settings.benchmark:
        return await _tried(context, _callable(context, settings.benchmark))
    if settings.benchmark_command:
        workload = await _tried(context, _command(settings.benchmark_command))
        await _must_run_targets(context, workload)
        return workload
    if benchmarks := [test for test in baseline.benchmarks if baseline.expected.get(test) == "passed"]:
        return _pooled(await _tried(context, _benchmarks(benchmarks)))
    is_open = baseline.executing and not settings.accept and not _is_made_again(baseline)
    if is_open and (found := await callers_of(context)):
        calls = captured_calls(found.ground.baseline)
        return replace(calls, why=_NOT_AGAIN, callers=found)
    return await without_callers(context)


async def without_callers(context: RunContext) -> Workload:
    """Return the targets' own calls: made again, or inside their tests; else whole tests."""
    baseline = context.baseline
    timed = baseline.calls if context.settings.accept else timed_calls(baseline)
    is_again = timed and (context.settings.accept or _is_made_again(baseline))
    if not is_again and (found := await _in_place(context)):
        return found
    return captured_calls(baseline) if timed else _whole_tests(baseline)


def _is_made_again(baseline: Baseline) -> bool:
    """Say whether half of the targets' calls are made again, and their inputs cheaply."""
    others = sum(n for why, n in baseline.uncaptured.items() if not why.startswith("in part: "))
    costs, copies = baseline.costs_ns, baseline.copies_ns
    cheap_ns = sum(ns for index, ns in costs.items() if copies.get(index, 0) <= DEAR_COPY * ns)
    untimed = len(baseline.unstable) if baseline.calls else 0
    return len(costs) >= others + untimed and cheap_ns >= LEFT_SHARE * sum(costs.values())


def captured_calls(baseline: Baseline) -> Workload:
    """Return the calls that the tests make, one of those with equal inputs; there must be some.

    Where all give something else in each process (hashes, say), only types are compared, and what is equal.
    """
    callers = timed_calls(baseline)
    inputs, copies_ns = baseline.inputs_of, baseline.copies_ns
    calls = [
        CallCost(index, callers[index], ns, inputs.get(index, ""), copies_ns.get(index, 0))
        for index, ns in baseline.costs_ns.items()
        if index in callers
    ]
    groups = cost_groups(calls)
    unsteady = tuple(group.name for group in groups) if callers is baseline.unstable else ()
    why = "they are the calls that the tests make" + _VARYING * bool(unsteady)
    return Workload(work=WorkKind.CALLS, why=why, groups=groups, unsteady=unsteady)


async def with_twins(context: RunContext, workload: Workload) -> Workload:
    """Return captured calls with twins, made and tried on the baseline; without any a note says so.

    Other work is returned as it is. A user's own judge has none: of inputs that the baseline's tests did not
    make it knows no right answer.
    """
    if workload.work is not WorkKind.CALLS:
        return workload
    if context.settings.accept:
        return replace(workload, notes=(*workload.notes, _NO_TWINS))
    name = "callers" if workload.callers else "calls"
    path = context.run_dir / "twins" / name  # in a folder of its own, which the guest may write to
    path.parent.mkdir(exist_ok=True)
    context.steps.begin("twins of the timed calls are made")
    guest, baseline = _ground(context, workload)
    inputs, workspace = Path(baseline.inputs), context.pool.baseline.workspace
    groups = await twinned(guest, workspace, workload.groups, inputs, path)
    found = replace(workload, notes=(*workload.notes, *missing_twins(groups)))
    if not any(group.twins for group in groups):
        return found
    return replace(found, groups=groups, fields={**workload.fields, "twins": str(path)})


def missing_twins(groups: Sequence[CostGroup]) -> tuple[str, ...]:
    """Return what a person should know of calls without twins, sentences."""
    share = sum(group.ns for group in groups if group.twins) / sum(group.ns for group in groups)
    if share >= _MOST_OF_IT:
        return ()
    return (_FEW_TWINS.format(share=share) if share else _NO_TWINS,)


def _ground(context: RunContext, workload: Workload) -> tuple[RunnerConfig, Baseline]:
    """Return what the timed calls are made by, and what they are held against."""
    ground = workload.callers.ground if workload.callers else None
    return (ground.guest, ground.baseline) if ground else (context.guest, context.baseline)


async def _in_place(context: RunContext) -> Workload | None:
    """Return calls inside their tests, by our clock; `None` where they are too short, too rare, or none."""
    whole = _whole_tests(context.baseline)
    tried = await _probed(context, replace(whole, work=WorkKind.IN_PLACE), _LONGEST_CALL_S)
    if not isinstance(tried, BaselineProbe) or not context.baseline.executing:
        return None
    calls = sum(count for count, _ in tried.windows)
    times_ns = [count * ns for count, ns in tried.windows]
    if not calls or sum(times_ns) < calls * LEAST_WINDOW_NS:
        return None
    if context.baseline.calls and sum(times_ns) < _LEAST_SHARE * sum(tried.costs_ns):
        return None
    groups = [
        replace(group, ns=max(1, int(ns)), pass_ns=cost)
        for group, ns, cost in zip(whole.groups, times_ns, tried.costs_ns, strict=True)
        if ns > 0
    ]
    every = ceil(max(count for count, _ in tried.windows) / MOST_WINDOWS)
    note = f"{sum(times_ns) / sum(tried.costs_ns):.0%} of their tests' time"
    return replace(
        whole,
        work=WorkKind.IN_PLACE,
        why=f"{_NOT_AGAIN}; they are {note}",
        groups=tuple(groups),
        fields={"every": every},
        unsteady=tuple(whole.groups[index].name for index in tried.unsteady),
    )


def _whole_tests(baseline: Baseline) -> Workload:
    tests = baseline.executing or baseline.selected
    groups = whole_test_groups([(test, baseline.durations_ns.get(test, 1)) for test in tests])
    why = "no call of the targets can be made again outside its test"
    return Workload(work=WorkKind.TESTS, why=why, groups=groups, notes=(_NO_TWINS,))


def _benchmarks(tests: Sequence[str]) -> Workload:
    groups = tuple(CostGroup(name=test, ns=_UNKNOWN_NS, tests=(test,)) for test in tests)
    return Workload(work=WorkKind.BENCHMARKS, why="the project has benchmarks of the targets", groups=groups)


def _pooled(workload: Workload) -> Workload:
    """Return benchmarks, tried one by one, in cost groups."""
    groups = whole_test_groups([(group.name, group.ns) for group in workload.groups])
    return replace(workload, groups=groups)


def _callable(context: RunContext, place: str) -> Workload:
    source = context.mirror.read(context.snapshot, place.partition("::")[0])
    given = named_callable("benchmark", place, source, context.targets)
    group = CostGroup(name=place, ns=_UNKNOWN_NS)
    return Workload(
        work=WorkKind.CALLABLE, why="--benchmark names it", groups=(group,), fields={"callable": given}
    )


def _command(text: str) -> Workload:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(
            "BAD_BENCHMARK", f"benchmark_command {text!r} is not a command line: {error}."
        ) from error
    if not words:
        raise UsageError("BAD_BENCHMARK", "benchmark_command names no program.")
    group = CostGroup(name=text, ns=_UNKNOWN_NS)
    return Workload(
        work=WorkKind.COMMAND, why="--benchmark-command names it", groups=(group,), fields={"command": words}
    )


async def _tried(context: RunContext, workload: Workload) -> Workload:
    """Return a workload with what it costs the baseline."""
    found = await _probed(context, workload, context.settings.time_budget or _LONGEST_CALL_S)
    if not isinstance(found, BaselineProbe):
        names = ", ".join(group.name for group in workload.groups)
        raise EnvironmentFault("BENCHMARK_UNFIT", f"{names} cannot be timed on the baseline: {found.reason}.")
    groups = [replace(g, ns=ns) for g, ns in zip(workload.groups, found.costs_ns, strict=True)]
    unsteady = tuple(workload.groups[index].name for index in found.unsteady)
    notes = tuple(f"{name} is non-deterministic: {_UNSTEADY}" for name in unsteady)
    return replace(workload, groups=tuple(groups), notes=notes, unsteady=unsteady)


async def _probed(
    context: RunContext, workload: Workload, deadline_s: float
) -> BaselineProbe | UntimeableWork:
    plan = RacePlan(groups=workload.groups, work=workload.work, budget_ns=int(deadline_s * 1e9))
    baseline = arm(context, workload, "", context.pool.baseline.workspace, None)
    return await probe(bench_of(context), baseline, plan, deadline_s=deadline_s)


async def _must_run_targets(context: RunContext, workload: Workload) -> None:
    """Raise unless a command fails where the targets' files cannot be imported.

    Nothing else shows which code a process runs that is not ours.

    Raises:
        EnvironmentFault: `BENCHMARK_UNFIT`, it runs other code, an installed copy perhaps.
    """
    slot, deadline_s = context.pool.baseline, _PATIENCE_S + _SLOWER * workload.pass_ns / 1e9
    plan = RacePlan(groups=workload.groups, work=workload.work, budget_ns=int(deadline_s * 1e9))
    await slot.stage(_unimportable(context))
    try:
        baseline = arm(context, workload, "", slot.workspace, None)
        found = await probe(bench_of(context), baseline, plan, deadline_s=deadline_s)
    finally:
        await slot.discard()
    if isinstance(found, BaselineProbe):
        files = ", ".join(sorted({target.path for target in context.targets}))
        raise EnvironmentFault(
            "BENCHMARK_UNFIT",
            f"{workload.groups[0].name} does not run the code that is to be timed: "
            f"it succeeds where {files} raises as soon as it is imported.",
            "It runs in a copy of the project: let it import from there, say by env PYTHONPATH=src python.",
        )


def _unimportable(context: RunContext) -> list[Edit]:
    """Return edits by which the files of the targets raise what hardly anybody catches."""
    paths = sorted({target.path for target in context.targets})
    texts = [(path, context.mirror.read(context.snapshot, path)) for path in paths]
    return [
        Edit(path=path, old_digest=digest_of(text), new=_RAISING) for path, text in texts if text is not None
    ]


#: What is said of work that the baseline does not repeat.
_UNSTEADY = "its outcome differs from call to call and is not compared."


def bench_of(context: RunContext) -> RaceEnvironment:
    """Return what arms are run with."""
    return RaceEnvironment(
        runner=context.runner,
        guest_dir=context.guest.directory,
        limits=context.limits,
        jury=jury_of(context),
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
        spec = {**selected_run_spec(context.guest, workspace, context.baseline, run), **workload.fields}
    else:
        guest, baseline = _ground(context, workload)
        spec = guest.spec("arm", prove, inputs=baseline.inputs, **workload.fields)
    return Arm(id=name, workspace=workspace, spec={**spec, **comparing(context.settings, workload)})


def comparing(settings: Settings, workload: Workload) -> dict[str, Any]:
    """Return the fields of a guest's spec that say which outcomes are compared.

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
