"""One gate: two trees, the head's benchmarks on both, raced in turn on one core until all is decided."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import stdev

import anyio
import anyio.to_thread

from codeflash_parallel.config.settings import Settings
from codeflash_parallel.config.settings_reader import cache_root
from codeflash_parallel.gate.benchmark_trial import (
    GateSide,
    GateWork,
    collected,
    may_preload,
    named_work,
    project_benchmarks,
    runs_any_of,
    sorted_out,
    tried,
    why_not_collected,
)
from codeflash_parallel.gate.build_cache import built
from codeflash_parallel.gate.gate_race import GateFinding, gate_plan, hold
from codeflash_parallel.gate.gate_result import (
    NO_BASE,
    BenchmarkChange,
    GateResult,
    Qualification,
    SpeedBounds,
    load_now,
    sentence,
)
from codeflash_parallel.gate.sides import resolved_sides, shared_files
from codeflash_parallel.process.host_lock import host_quiet
from codeflash_parallel.race.plan import RacePlan
from codeflash_parallel.race.statistics.slowdown_test import Change, GateRules, means, overall
from codeflash_parallel.result.errors import ungrouped
from codeflash_parallel.run.pipeline import new_run_id
from codeflash_parallel.run.setup.evaluator_resources import EvaluatorResources
from codeflash_parallel.run.setup.evaluator_setup import Setup
from codeflash_parallel.workspace.cache_layout import disk_faults
from codeflash_parallel.workspace.slot.slot import Slot
from codeflash_parallel.workspace.slot_pool import open_pool
from codeflash_parallel.workspace.snapshot.derived_snapshot import with_files_of
from codeflash_parallel.workspace.snapshot.snapshot import Snapshot, SnapshotRequest

#: Slowdown that a machine must tell to be fit for a gate.
PLANTED = 0.05

#: A head that does not end in time is red if it took so many times as long when it was tried, too: a machine
#: may stand still for a moment.
_FAR_SLOWER = 4

#: Compiled files of the user's checkout are of one side only.
_COMPILED = frozenset({"*.so", "*.pyd"})


@dataclass(frozen=True, kw_only=True, slots=True)
class GateRequest:
    """A request for a gate.

    Attributes:
        base, head: refs; an empty head is the working tree.
        benchmarks: callables, path::name; none: the setting, the command, or the project's benchmarks.
        prepare: command that builds each side; empty: none.
        budget_s: wall seconds that the race may take.
        max_regression: slowdown that is red, as a fraction.
        is_qualification: the base races against itself.
    """

    base: str
    head: str = ""
    benchmarks: tuple[str, ...] = ()
    prepare: str = ""
    budget_s: float = 60.0
    max_regression: float = 0.02
    is_qualification: bool = False


def _untold(_said: str) -> None:
    """Say nothing."""


async def gate(
    project: Path, settings: Settings, request: GateRequest, tell: Callable[[str], None] = _untold
) -> GateResult:
    """Say whether the head is slower than the base. Cancelling kills what runs and removes the slots.

    Args:
        project: a folder of the user's repository, which is only read.
        settings: `confidence`, `min_speedup`, `tests` and whatever says how processes are run.
        request: what is compared.
        tell: is told what is done, a clause each.

    Raises:
        UsageError: what the user names is not there.
        EnvironmentFault: there is nothing to race: no benchmarks, a build that fails, an unfit machine.
    """
    quiet = host_quiet(os.environ, lambda why: tell(f"waits: {why}") if why else None)
    with ungrouped(), disk_faults(cache_root(settings)):
        async with EvaluatorResources.open(project, settings, quiet, once=True) as resources:
            return await _Gate(resources.setup, request, tell).result()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Contest:
    """Two sides and the benchmarks that race on them.

    Attributes:
        plan: has a group for each benchmark that is raced.
        out: of the others the verdict, and why.
        lines: at which benchmarks begin, by name.
        is_far: a benchmark took many times as long on the head when it was tried.
        notes: sentences.
    """

    base: GateSide
    head: GateSide
    work: GateWork
    plan: RacePlan
    out: dict[str, tuple[str, str]]
    lines: dict[str, int] = field(default_factory=dict)
    is_far: bool = False
    notes: tuple[str, ...] = ()


#: Said where a green gate would say little.
_UNREAD = "No benchmark runs a Python file that differs: an installed copy may be what was timed."


class _Gate:
    """A gate that is being held."""

    def __init__(self, setup: Setup, request: GateRequest, tell: Callable[[str], None]) -> None:
        self._setup, self._request, self._tell = setup, request, tell
        self._run_id = new_run_id()
        self._slots: dict[str, Slot] = {}
        self._rules = GateRules(
            max_regression=request.max_regression,
            min_speedup=setup.settings.min_speedup,
            confidence=setup.settings.confidence,
        )

    async def result(self) -> GateResult:
        setup, request, load = self._setup, self._request, load_now()
        resolve = partial(resolved_sides, setup.repository, request.base, request.head)
        commits = await anyio.to_thread.run_sync(resolve)
        async with AsyncExitStack() as stack:
            async with setup.quiet.shared():
                snapshots = [await self._snapshot(commit) for commit in commits]
                if request.prepare:
                    snapshots = [
                        await built(
                            setup, snapshot, request.prepare, f"{self._run_id}-make", side, self._tell
                        )
                        for snapshot, side in zip(snapshots, ("base", "head"), strict=True)
                    ]
                contest = await self._contest(stack, *snapshots)
            found = GateFinding(load=(load, load))
            if contest.plan.groups:
                self._tell(f"{_counted(contest.plan.groups)} raced, {request.budget_s:g} s at most")
                planted = PLANTED if request.is_qualification else 0.0
                async with setup.quiet.exclusive():
                    found = await hold(
                        contest.base, contest.head, contest.work, contest.plan, self._rules, planted
                    )
        return self._told(commits, contest, found)

    # --- what is raced ---------------------------------------------------------------------------------

    async def _snapshot(self, commit: str) -> Snapshot:
        wanted = tuple(p for p in self._setup.settings.include_ignored if p not in _COMPILED)
        return await self._setup.mirror.snapshot(SnapshotRequest(base=commit, include_ignored=wanted))

    async def _side(self, stack: AsyncExitStack, name: str, snapshot: Snapshot) -> GateSide:
        setup = self._setup
        opened = open_pool(
            setup.mirror,
            snapshot,
            size=1,
            interpreter=setup.interpreter,
            run_id=f"{self._run_id}-{name}",  # of one length, as are the paths of both sides then
            environment_for=setup.environment,
            isolation=setup.isolation,
        )
        pool = await stack.enter_async_context(opened)
        self._slots[name] = pool.baseline
        return GateSide(name=name, setup=setup, snapshot=snapshot, workspace=pool.baseline.workspace)

    async def _contest(self, stack: AsyncExitStack, older: Snapshot, newer: Snapshot) -> _Contest:
        """Find the head's benchmarks, give the base the same, and try them on both sides."""
        setup, request, settings = self._setup, self._request, self._setup.settings
        head = await self._side(stack, "head", newer)
        named = request.benchmarks or tuple(filter(None, (settings.benchmark,)))
        given = named_work(setup, newer, named, settings.benchmark_command)
        if given is None:
            head, session = await collected(head)
        work = given or project_benchmarks(head, session)
        shared = shared_files(work.files.values())
        give = partial(with_files_of, setup.mirror, older, newer, shared)
        base = await self._side(stack, "base", await anyio.to_thread.run_sync(give))
        on_base: dict[str, int | str] = {}
        if given is None:
            base, session = await collected(base)
            for name in set(work.names).difference(session.report.benchmarks):
                on_base[name] = why_not_collected(session, name.partition("::")[0])
        if request.is_qualification:
            same = await self._side(stack, "same", base.snapshot)
            head = replace(base, workspace=same.workspace)
        names = [name for name in work.names if name not in on_base]
        self._tell(f"{_counted(names)} tried on both sides")
        on_head: dict[str, int | str] = {}
        async with anyio.create_task_group() as tasks:
            for side, costs in ((base, on_base), (head, on_head)):
                tasks.start_soon(_try, side, work, names, costs)
        plan = gate_plan(work, request.budget_s, os.sched_getaffinity(0))
        paths = {*setup.mirror.paths(base.snapshot), *setup.mirror.paths(newer)}
        plan = replace(plan, preloads=may_preload(work, setup.repository.project, paths))
        plan, out = sorted_out(work, {name: on_base[name] for name in work.names}, on_head, plan)
        raced = [group.name for group in plan.groups]
        differing = {} if request.is_qualification else self._differing(base.snapshot, newer)
        is_read = not (raced and differing) or await runs_any_of(
            head, self._slots["head"], work, raced, differing
        )
        return _Contest(
            notes=() if is_read else (_UNREAD,),
            base=base,
            head=head,
            work=work,
            plan=plan,
            out=out,
            lines={name: work.line(name, self._source(newer, work, name)) for name in work.names},
            is_far=any(_is_far(on_base[group.name], on_head[group.name]) for group in plan.groups),
        )

    def _differing(self, older: Snapshot, newer: Snapshot) -> dict[str, bytes]:
        """Return the Python files of the head that the base has otherwise; none where other code differs."""
        mirror = self._setup.mirror
        ours, theirs = mirror.entries(newer), mirror.entries(older)
        paths = [path for path, entry in ours.items() if theirs.get(path) != entry]
        if any(path.endswith((".so", ".pyd")) for path in paths):
            return {}
        texts = {path: mirror.read(newer, path) for path in paths if path.endswith(".py")}
        return {path: text for path, text in texts.items() if text is not None}

    def _source(self, newer: Snapshot, work: GateWork, name: str) -> str:
        data = self._setup.mirror.read(newer, work.files[name]) if name in work.files else None
        return (data or b"").decode("utf-8", "replace")

    # --- what is said ----------------------------------------------------------------------------------

    def _told(self, commits: tuple[str, str], contest: _Contest, found: GateFinding) -> GateResult:
        setup, decision = self._setup, found.decision
        verdict = Change.TOO_NOISY
        if found.why_slower and contest.is_far:
            verdict = Change.SLOWER
        elif decision is not None and not found.why_void and not found.why_slower:
            open_ = [Change.TOO_NOISY for verdict, _ in contest.out.values() if verdict != NO_BASE]
            verdict = overall([*decision.changes, *open_], decision.total)
        result = GateResult(
            verdict=verdict,
            why=found.why_void or found.why_slower,
            speed=SpeedBounds.of(means(found.lanes)),
            benchmarks=tuple(self._benchmark(name, contest, found) for name in contest.work.names),
            base=commits[0],
            head=commits[1],
            rules=self._rules,
            budget_s=self._request.budget_s,
            seconds=round(found.seconds, 1),
            rounds=found.rounds,
            layouts=found.layouts,
            null_arm=found.null_arm,
            cores=setup.machine.cores,
            quota_cores=setup.machine.quota_cores,
            load=found.load,
            isolation=setup.isolation.level.value,
            python=str(setup.interpreter),
            notes=contest.notes,
            qualification=self._qualification(found),
        )
        return replace(result, why=result.why or sentence(result))

    def _benchmark(self, name: str, contest: _Contest, found: GateFinding) -> BenchmarkChange:
        file, line = contest.work.files.get(name, ""), contest.lines[name]
        if name in contest.out:
            verdict, why = contest.out[name]
            return BenchmarkChange(name=name, verdict=verdict, why=why, file=file, line=line)
        if found.decision is None:
            why = found.why_void or found.why_slower
            return BenchmarkChange(name=name, verdict=Change.TOO_NOISY, why=why, file=file, line=line)
        number = found.names.index(name)
        values = [*found.lanes[number].values()]
        change = Change.TOO_NOISY if found.why_void else found.decision.changes[number]
        return BenchmarkChange(
            name=name,
            verdict=change,
            why=found.why_void or (_scatter(values) if change is Change.TOO_NOISY else ""),
            speed=SpeedBounds.of(values),
            file=file,
            line=line,
            base_ns=contest.plan.groups[number].ns,
            clock=found.clocks[number],
        )

    def _qualification(self, found: GateFinding) -> Qualification | None:
        if not self._request.is_qualification:
            return None
        return Qualification(planted=PLANTED, seconds=found.planted_s, false_alarms=found.alarms)


def _counted(some: Sequence[object]) -> str:
    return "1 benchmark is" if len(some) == 1 else f"{len(some)} benchmarks are"


async def _try(side: GateSide, work: GateWork, names: list[str], costs: dict[str, int | str]) -> None:
    costs |= await tried(side, work, names)


def _is_far(base_ns: int | str, head_ns: int | str) -> bool:
    return isinstance(base_ns, int) and isinstance(head_ns, int) and head_ns > _FAR_SLOWER * base_ns


def _scatter(values: list[float]) -> str:
    many = len(values) > 1
    return f"it differs by {stdev(values):.1%} from one set of processes to the next" if many else ""
