"""Benchmarks of a gate: what the head has, and which of it both sides run."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any

from codeflash_parallel.baseline.baseline_findings import first_findings
from codeflash_parallel.baseline.preflight import must_be_ours
from codeflash_parallel.candidates.functions import locate
from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.session.runner_session import (
    RunnerConfig,
    RunnerSession,
    SelectedRun,
    WrapMode,
    first_run_spec,
    hashed,
    run_session,
    selected_run_spec,
)
from codeflash_parallel.config.environment import HASH_SEEDS
from codeflash_parallel.gate.gate_result import NO_BASE, NO_HEAD
from codeflash_parallel.race.cost_groups import BaselineProbe, UntimeableWork, probe
from codeflash_parallel.race.plan import LEAN_CYCLE_NS, Arm, CostGroup, RacePlan, WorkKind
from codeflash_parallel.race.worker.arm_pool import RaceEnvironment
from codeflash_parallel.result.candidate_model import Edit, digest_of
from codeflash_parallel.result.errors import EnvironmentFault, UsageError
from codeflash_parallel.result.runtime_protocols import ProcessLimits, Workspace
from codeflash_parallel.run.run_targets import named_callable
from codeflash_parallel.run.setup.evaluator_setup import Setup
from codeflash_parallel.workspace.slot.slot import Slot
from codeflash_parallel.workspace.snapshot.snapshot import Snapshot

#: Wall seconds for imports and collection.
_COLLECTION_S = 600.0

#: Wall seconds that one call may take when it is tried.
_CALL_S = 120.0


@dataclass(frozen=True, kw_only=True, slots=True)
class GateWork:
    """Benchmarks of one kind.

    Attributes:
        names: of tests, callables or a command.
        files: by name, the file that holds it, relative to the root.
        callables: what a runner's spec says of each, by name.
    """

    kind: WorkKind
    names: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)
    callables: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def line(self, name: str, source: str) -> int:
        """Return the line at which a benchmark begins in its file's text; 0: it is not found."""
        qualname = name.partition("::")[2].partition("[")[0].replace("::", ".")
        node = locate(source, qualname) if qualname else None
        return node.lineno if node else 0


@dataclass(frozen=True, kw_only=True, slots=True)
class GateSide:
    """One side, in a slot of its own.

    Attributes:
        name: `base` or `head`.
        found: pytest's root and configuration; `None` where it is not asked.
    """

    name: str
    setup: Setup
    snapshot: Snapshot
    workspace: Workspace
    found: Baseline | None = None

    @property
    def runner(self) -> RunnerConfig:
        """The common part of all its runners."""
        return self.setup.runner((), self.snapshot, self.setup.settings.seed or 1)

    @property
    def bench(self) -> RaceEnvironment:
        """The surroundings of its arms."""
        limits = ProcessLimits(wall_s=_CALL_S, memory_bytes=self.setup.shares.memory_bytes)
        return RaceEnvironment(launcher=self.setup.launcher, runner_dir=self.setup.runner_dir, limits=limits)

    def arm(self, work: GateWork, names: Sequence[str]) -> Arm:
        """Return it as an arm that runs some benchmarks; only whether they return is compared."""
        spec: dict[str, Any]
        if self.found is not None:
            run = SelectedRun(only=tuple(names), wrap=WrapMode.NONE)
            spec = selected_run_spec(self.runner, self.workspace, self.found, run)
        elif work.kind is WorkKind.CALLABLE:
            spec = self.runner.spec("arm", (), callables=[dict(work.callables[name]) for name in names])
        else:
            spec = self.runner.spec("arm", (), command=shlex.split(names[0]))
        more = {"compare": "returns", "says_errors": True}
        return Arm(id=self.name, workspace=self.workspace, spec={**spec, **more})


def groups_of(work: GateWork, costs_ns: Mapping[str, int]) -> tuple[CostGroup, ...]:
    """Return a group for each benchmark, with its cost."""
    is_tests = work.kind is WorkKind.BENCHMARKS
    return tuple(
        CostGroup(name=name, ns=max(1, ns), tests=(name,) if is_tests else ())
        for name, ns in costs_ns.items()
    )


# --- what there is ---------------------------------------------------------------------------------------


def named_work(setup: Setup, head: Snapshot, benchmarks: Sequence[str], command: str) -> GateWork | None:
    """Return the benchmarks that the user names; `None`: the project's own are meant.

    Raises:
        UsageError: `BAD_BENCHMARK`.
    """
    if benchmarks:
        given = {}
        for place in dict.fromkeys(benchmarks):
            source = setup.mirror.read(head, place.partition("::")[0])
            given[place] = named_callable("benchmark", place, source, ())
        files = {place: place.partition("::")[0] for place in given}
        return GateWork(kind=WorkKind.CALLABLE, names=tuple(given), files=files, callables=given)
    if not command:
        return None
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError("BAD_BENCHMARK", f"{command!r} is not a command line: {error}.") from error
    if not words:
        raise UsageError("BAD_BENCHMARK", "--benchmark-command names no program.")
    there = set(setup.mirror.paths(head))
    files = {word: path for word in words if (path := _inside(setup, word)) in there}
    return GateWork(kind=WorkKind.COMMAND, names=(command,), files=files)


def _inside(setup: Setup, word: str) -> str:
    """Return a path of the project relative to the root."""
    return (setup.repository.project / word).as_posix()


async def collected(side: GateSide) -> tuple[GateSide, RunnerSession]:
    """Return a side that knows pytest's root, and what it collects; no test is run.

    Raises:
        EnvironmentFault: `WRONG_SOURCE`: other code than its own is imported.
    """
    workspace = hashed(side.workspace, HASH_SEEDS[0])
    limits = ProcessLimits(wall_s=_COLLECTION_S, memory_bytes=side.setup.shares.memory_bytes)
    spec = {**first_run_spec(side.runner, workspace), "collects": True}
    session = await run_session(side.runner, workspace, spec, limits)
    must_be_ours(session.report, {})
    found = first_findings(session, side.runner, workspace, runs_all=True)
    return replace(side, found=found), session


def why_not_collected(session: RunnerSession, file: str = "") -> str:
    """Return why a file's tests, or any, were not collected; one clause.

    Args:
        file: as test ids begin; empty: any.
    """
    said = [t.message for name, t in session.report.tests.items() if t.message and name.startswith(file)]
    text = next(iter(said), session.report.error or session.exit.stderr) if not file or said else ""
    lines = [line.removeprefix("E   ").strip() for line in text.strip().splitlines() if line.strip()]
    return lines[-1] if lines else "pytest does not collect it"


def project_benchmarks(head: GateSide, session: RunnerSession) -> GateWork:
    """Return the pytest-benchmark tests that the head has.

    Raises:
        EnvironmentFault: `NO_BENCHMARKS`: there are none.
    """
    report = session.report
    if not report.benchmarks:
        count = len(report.collected)
        message = f"The head has no test that uses pytest-benchmark's fixture ({count} tests were collected)."
        failed = [test for test in report.tests.values() if test.message]
        if failed or not report.finished:
            message += f" {failed[0].id if failed else 'pytest'}: {why_not_collected(session)}."
        elif not any(name.startswith("benchmark") for name in report.plugins):
            message += f" pytest-benchmark is not installed for {head.setup.interpreter}."
        hint = "Name them with --tests, --benchmark FILE::CALLABLE or --benchmark-command COMMAND."
        raise EnvironmentFault("NO_BENCHMARKS", message, hint)
    root = head.found.rootdir if head.found else ""
    prefix = "" if root in {"", "."} else f"{root}/"
    files = {test: prefix + test.partition("::")[0] for test in report.benchmarks}
    return GateWork(kind=WorkKind.BENCHMARKS, names=report.benchmarks, files=files)


# --- what both run ---------------------------------------------------------------------------------------


async def tried(side: GateSide, work: GateWork, names: Sequence[str]) -> dict[str, int | str]:
    """Return what each benchmark costs, nanoseconds, or why the side does not run it.

    All are tried in one process; where that fails, halves are, until those that fail stand alone.
    """
    if not names:
        return {}
    found = await _probed(side, work, names)
    if isinstance(found, BaselineProbe):
        return dict(zip(names, found.costs_ns, strict=True))
    if len(names) == 1:
        return {names[0]: found.reason}
    half = len(names) // 2
    return {**await tried(side, work, names[:half]), **await tried(side, work, names[half:])}


async def _probed(side: GateSide, work: GateWork, names: Sequence[str]) -> BaselineProbe | UntimeableWork:
    groups = groups_of(work, dict.fromkeys(names, 1))
    plan = RacePlan(groups=groups, work=work.kind, budget_ns=int(_CALL_S * 1e9))
    return await probe(side.bench, side.arm(work, names), plan, deadline_s=_CALL_S)


#: Text of a file that cannot be imported.
_RAISING = b"raise SystemExit('codeflash-parallel looks whether this file is run')\n"


async def runs_any_of(
    side: GateSide, slot: Slot, work: GateWork, names: Sequence[str], files: Mapping[str, bytes]
) -> bool:
    """Return whether a benchmark runs one of some files: it fails where they cannot be imported.

    Args:
        side: the head.
        slot: in which it stands; it is restored.
        work: of the gate.
        names: benchmarks that the side runs.
        files: paths and texts.
    """
    await slot.stage([Edit(path=p, old_digest=digest_of(t), new=_RAISING) for p, t in files.items()])
    try:
        if side.found is not None:
            _, session = await collected(side)
            if not set(names) <= set(session.report.benchmarks):
                return True
        return not isinstance(await _probed(side, work, names), BaselineProbe)
    finally:
        await slot.discard()


#: Besides those of the standard library: modules that come with pytest.
_PYTEST = frozenset(
    ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "exceptiongroup", "tomli", "py")
)


def may_preload(work: GateWork, project: PurePath, paths: Iterable[str]) -> bool:
    """Return whether pytest can be imported before a process is one side's: it takes most of a start.

    Args:
        work: what is timed.
        project: its folder, relative to the root.
        paths: of both trees: none may hold what comes with pytest, or the installed one would be run.
    """
    known = _PYTEST | sys.stdlib_module_names
    folders = (project.parts, (*project.parts, "src"))
    parts = [PurePath(path).parts for path in paths]
    tops = {part[len(f)] for part in parts for f in folders if part[: len(f)] == f and len(part) > len(f)}
    return work.kind is WorkKind.BENCHMARKS and known.isdisjoint(top.removesuffix(".py") for top in tops)


#: Fewer sets of processes than this decide nothing: each doubles the evidence at most.
LEAST_LAYOUTS = 9
#: What is too long for one round of so many sets in this part of the budget is left out.
_SHARE = 0.8
#: CPU time that rounds of one set of processes may take, as part of the budget: new processes take more, and
#: a set's median counts once. So many palindromes of a benchmark are wanted in a round, then more rounds.
_ROUNDS_SHARE, _WANTED, _MOST_PALINDROMES, _ROUNDS = 0.0125, 4, 8, (4, 3, 2, 1)


def sorted_out(
    work: GateWork, base: Mapping[str, int | str], head: Mapping[str, int | str], plan: RacePlan
) -> tuple[RacePlan, dict[str, tuple[str, str]]]:
    """Return the plan with what is raced, and why the rest is not: verdict and clause.

    The longest are left out until as many rounds as decide something fit into the budget.
    """
    out: dict[str, tuple[str, str]] = {}
    costs: dict[str, tuple[int, int]] = {}
    for name, base_ns in base.items():
        head_ns = head.get(name, 0)
        if isinstance(base_ns, str):
            out[name] = (NO_BASE, f"the base does not run it: {base_ns}")
        elif isinstance(head_ns, str):
            out[name] = (NO_HEAD, f"the head does not run it: {head_ns}")
        else:
            costs[name] = (base_ns, head_ns)
    longest_ns = _SHARE * plan.budget_ns / LEAST_LAYOUTS
    rounds_ns = {name: round_ns(*both, block_ns=plan.block_ns) for name, both in costs.items()}
    left_ns = longest_ns
    raced: dict[str, int] = {}
    for name in sorted(costs, key=rounds_ns.__getitem__):
        left_ns -= rounds_ns[name]
        if left_ns >= 0:
            raced[name] = costs[name][0]
        else:
            needed_s = (longest_ns - left_ns) * LEAST_LAYOUTS / _SHARE / 1e9
            out[name] = ("too_noisy", f"it is too long for this budget: --budget {needed_s:.0f} would do")
    groups = groups_of(work, {name: raced[name] for name in base if name in raced})
    return _sized(replace(plan, groups=groups), [costs[group.name] for group in groups]), out


def _sized(plan: RacePlan, costs: Sequence[tuple[int, int]]) -> RacePlan:
    """Return a plan with as long blocks, and as many of them and of rounds, as fit into a set of processes.

    On a busy machine a block costs more beside its calls than in them: few benchmarks have long ones.
    """
    once_ns = sum(base + head if base > LEAN_CYCLE_NS else 2 * base + head for base, head in costs)
    sizes = [(block, rounds) for block in (2 * plan.block_ns, plan.block_ns) for rounds in _ROUNDS]
    for block_ns, rounds in sizes:
        turns_ns = max(1.0, sum(round_ns(*both, block_ns=block_ns) for both in costs) - once_ns)
        palindromes = (_ROUNDS_SHARE * plan.budget_ns / rounds - once_ns) / turns_ns
        if palindromes >= _WANTED:
            break
    least = max(1, min(_MOST_PALINDROMES, int(palindromes))) * max(1, len(costs))
    return replace(plan, block_ns=block_ns, layout_rounds=rounds, least_palindromes=least)


def round_ns(base_ns: int, head_ns: int, *, block_ns: int) -> float:
    """Return about how long one round of a benchmark takes, all arms together."""
    if base_ns > LEAN_CYCLE_NS:
        return base_ns + head_ns
    return 2 * base_ns + head_ns + 2 * (2 * max(base_ns, block_ns) + max(head_ns, block_ns))
