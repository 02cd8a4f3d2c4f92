"""Choice of the work that a race times: made once a run, tried on the baseline, told before the race."""

from __future__ import annotations

import json
import os
import shlex
import struct
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import ceil
from pathlib import Path

from codeflash_parallel.baseline.baseline_findings import timed_calls
from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.session.runner_session import (
    RunnerConfig,
    hashed,
    run_session,
)
from codeflash_parallel.config.environment import HASH_SEEDS
from codeflash_parallel.race.cost_groups import (
    DEAR_COPY,
    LEFT_SHARE,
    BaselineProbe,
    CallCost,
    UntimeableWork,
    cost_groups,
    probe,
    whole_test_groups,
)
from codeflash_parallel.race.plan import CostGroup, RacePlan, WorkKind
from codeflash_parallel.result.candidate_model import Edit, digest_of
from codeflash_parallel.result.errors import EnvironmentFault, UsageError
from codeflash_parallel.result.runtime_protocols import ProcessLimits, Workspace
from codeflash_parallel.run.check_phase.watched_functions import callers_of
from codeflash_parallel.run.ledger import RunContext
from codeflash_parallel.run.race_phase.workload import Workload, arm, bench_of, ground_of
from codeflash_parallel.run.run_targets import named_callable

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
#: Less of their tests' time than this is timed inside them only where no call can be made again: of 32 real
#: cases two had 5 and 6 %, and no budget was enough for the tests around them.
_LEAST_SHARE = 0.2
#: Cost of a group before it has been found out.
_UNKNOWN_NS = 1


#: Why calls of the targets are not timed by themselves.
_NOT_AGAIN = "most calls of the targets cannot be made again outside their tests, or only by dear copies"
_VARYING = "; what they give is another in each process: only its type, and what is equal, is compared"
#: What is said of work that the baseline does not repeat.
_UNSTEADY = "its outcome differs from call to call and is not compared."
#: Before each entry of a file of calls: the lengths of its head and its pickle
#: (`_runner.values.call_files`).
_LENGTHS = struct.Struct(">IQ")
#: Of the process that makes twins, which bounds itself.
_MAKING = ProcessLimits(wall_s=60.0, cpu_s=40.0)
#: Blocks of twins of one group, at most.
_BLOCKS = 2


async def choose_workload(context: RunContext) -> Workload:
    """Return what this run's races time: what the user names, else the project's benchmarks, else calls.

    What has not been run yet is run on the baseline first.

    Raises:
        UsageError: what the user names is not there.
        EnvironmentFault: it cannot be timed on the baseline.
    """
    settings, baseline = context.settings, context.baseline
    if place := settings.benchmark:
        source = context.mirror.read(context.snapshot, place.partition("::")[0])
        given = named_callable("benchmark", place, source, context.targets)
        named = _named(WorkKind.CALLABLE, "--benchmark names it", [place], callables=[given])
        return await _tried(context, named)
    if command := settings.benchmark_command:
        words = _words(command)
        named = _named(WorkKind.COMMAND, "--benchmark-command names it", [command], command=words)
        await _must_run_targets(context, workload := await _tried(context, named))
        return workload
    if benchmarks := [test for test in baseline.benchmarks if baseline.expected.get(test) == "passed"]:
        why = "the project has benchmarks of the targets"
        tried = await _tried(context, _named(WorkKind.BENCHMARKS, why, benchmarks))
        return replace(tried, groups=whole_test_groups([(group.name, group.ns) for group in tried.groups]))
    is_open = baseline.executing and not settings.accept and not _is_made_again(baseline)
    if is_open and (found := await callers_of(context)):
        functions = ", ".join(f"`{function.qualname}`" for function in found.functions)
        targets = ", ".join(f"`{target.qualname}`" for target in context.targets)
        of = f" of {functions}; {targets} is {100 * found.baseline.share:.0f} % of it"
        return replace(captured_calls(found.baseline), why=_NOT_AGAIN, callers=found, of=of)
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
    """Return whether half of the targets' calls are made again, and their inputs cheaply."""
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
    path = context.run_dir / "twins" / name  # in a folder of its own, which the runner may write to
    path.parent.mkdir(exist_ok=True)
    context.steps.begin("twins of the timed calls are made")
    runner, baseline = ground_of(context, workload)
    inputs, workspace = Path(baseline.inputs), context.pool.baseline.workspace
    groups = await twinned(runner, workspace, workload.groups, inputs, path)
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


def _named(work: WorkKind, why: str, names: Sequence[str], **fields: object) -> Workload:
    """Return work with a group for each name, whose costs are not known yet."""
    is_tests = work is WorkKind.BENCHMARKS
    groups = [CostGroup(name=name, ns=_UNKNOWN_NS, tests=(name,) if is_tests else ()) for name in names]
    return Workload(work=work, why=why, groups=tuple(groups), fields=fields)


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        message = f"benchmark_command {command!r} is not a command line: {error}."
        raise UsageError("BAD_BENCHMARK", message) from error
    if not words:
        raise UsageError("BAD_BENCHMARK", "benchmark_command names no program.")
    return words


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
    slot, read = context.pool.baseline, partial(context.mirror.read, context.snapshot)
    paths = sorted({target.path for target in context.targets})
    texts = {path: text for path in paths if (text := read(path)) is not None}
    await slot.stage([Edit(path=p, old_digest=digest_of(t), new=_RAISING) for p, t in texts.items()])
    try:
        found = await _probed(context, workload, _PATIENCE_S + _SLOWER * workload.pass_ns / 1e9)
    finally:
        await slot.discard()
    if isinstance(found, BaselineProbe):
        raise EnvironmentFault(
            "BENCHMARK_UNFIT",
            f"{workload.groups[0].name} does not run the code that is to be timed: "
            f"it succeeds where {', '.join(paths)} raises as soon as it is imported.",
            "It runs in a copy of the project: let it import from there, say by env PYTHONPATH=src python.",
        )


async def twinned(
    runner: RunnerConfig, workspace: Workspace, groups: Sequence[CostGroup], inputs: Path, path: Path
) -> tuple[CostGroup, ...]:
    """Return groups of captured calls with the twins that can be made.

    Args:
        runner: of the run.
        workspace: the baseline's.
        groups: without twins.
        inputs: file of the calls.
        path: file for the twins; what an earlier process of the run has made is taken as it is.
    """
    if not (found := _made(path)):
        draft = path.with_name("draft")
        calls = [{"calls": list(group.calls)} for group in groups]
        spec = runner.spec("twins", (), inputs=str(inputs), twins=str(draft), groups=calls)
        await run_session(runner, hashed(workspace, HASH_SEEDS[0]), spec, _MAKING)
        found = _made(draft)
        with suppress(FileNotFoundError):  # it came to nothing: no group has twins
            draft.replace(path)
    members = [[found[call] for call in group.calls if call in found] for group in groups]
    return tuple(replace(group, twins=_blocks(own)) for group, own in zip(groups, members, strict=True))


def _blocks(twins: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """Return the twins of some calls in blocks, as many of each call in each of them."""
    count = min(map(len, twins), default=0)
    size = max(1, count // _BLOCKS)
    starts = range(0, count - size + 1, size)[:_BLOCKS]
    return tuple(tuple(of[v] for v in range(start, start + size) for of in twins) for start in starts)


def _made(path: Path) -> dict[int, list[int]]:
    """Return the twins in a file by their calls, all by their numbers; load none of them."""
    found: dict[int, list[int]] = defaultdict(list)
    with suppress(OSError, ValueError, struct.error), path.open("rb") as file:
        while lengths := file.read(_LENGTHS.size):
            head, size = _LENGTHS.unpack(lengths)
            meta = json.loads(file.read(head))
            found[meta["base"]].append(meta["i"])
            file.seek(size, os.SEEK_CUR)
    return found
