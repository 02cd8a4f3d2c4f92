"""The arms of one layout: a new process each, until the field is closed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from math import inf
from pathlib import Path
from secrets import token_hex
from typing import Any

import anyio
from anyio.abc import TaskGroup

from codeflash_parallel.process.launcher.launcher import Launcher, LauncherForkServer
from codeflash_parallel.race.measurement import BlockKind
from codeflash_parallel.race.plan import BASELINE, Arm, CostGroup, RacePlan, WorkKind
from codeflash_parallel.race.race_result import (
    ArmFailure,
    ArmStartFailure,
    RaceBudgetExceeded,
    explained,
)
from codeflash_parallel.race.worker.arm_worker import SECOND, SMALL_S, ArmTemplate, BlockRequest, ResultJudge
from codeflash_parallel.race.worker.leftover_files import LeftoverFiles, read_shared
from codeflash_parallel.result.runtime_protocols import ChildCommand, ProcessLimits, ServerGone
from codeflash_parallel.sandbox.runner_command import ControlChannelUse, start_command

#: Seconds in which the kernel must let go of killed processes; beyond them they are left to the launcher.
CLOSE_S = 10.0

#: Seconds that imports and the loading of inputs may take the baseline.
READY_S = 120.0

#: A candidate may take this many times as long, which all arms of a layout do at once, and some seconds.
SLOW_START = 5.0
PATIENCE_S = 10.0


@dataclass(frozen=True, kw_only=True, slots=True)
class RaceEnvironment:
    """Environment in which arms run.

    Attributes:
        launcher: starts their processes.
        runner_dir: what `install_runner` returned.
        limits: of each arm's processes; their times are replaced by the race's own.
        jury: judges results of captured calls; `None`: digests are compared.
    """

    launcher: Launcher
    runner_dir: Path
    limits: ProcessLimits
    jury: ResultJudge | None = None


async def start_fork_server(
    bench: RaceEnvironment, arm: Arm, plan: RacePlan, hash_seed: int
) -> LauncherForkServer:
    """Start the process from which the arms of one layout are forked; whoever calls this closes it.

    Args:
        arm: in whose workspace it lives, the baseline.

    Raises:
        ArmFailure: it does not come up.
    """
    spec = {"mode": "forkserver", "work": plan.work.value, "preloads": plan.preloads}
    command = _command(bench, arm, spec, plan, hash_seed)
    try:
        return await bench.launcher.fork_server(command, SMALL_S)
    except ServerGone as error:
        raise _no_server(error) from error


async def start_template(
    bench: RaceEnvironment, server: LauncherForkServer, arm: Arm, plan: RacePlan, hash_seed: int
) -> ArmTemplate:
    """Start an arm's process; whoever calls this closes what it returns.

    Raises:
        ArmFailure: the fork server is gone.
    """
    spec = {
        **arm.spec,
        "mode": "arm",
        "work": plan.work.value,
        "groups": [_group_spec(group) for group in plan.groups],
    }
    try:
        channel = await server.open(_command(bench, arm, spec, plan, hash_seed))
    except ServerGone as error:
        raise _no_server(error) from error
    return ArmTemplate(arm, channel, plan.work, bench.jury if plan.work is WorkKind.CALLS else None)


def _group_spec(group: CostGroup) -> dict[str, Any]:
    twins = [index for block in group.twins for index in block]
    return {"name": group.name, "calls": list(group.calls), "twins": twins, "tests": list(group.tests)}


def _command(
    bench: RaceEnvironment, arm: Arm, spec: Mapping[str, Any], plan: RacePlan, hash_seed: int
) -> ChildCommand:
    # Every arm of a layout has the same hash seed, or sets would be iterated in different orders.
    environment = {**arm.workspace.environment, "PYTHONHASHSEED": str(hash_seed)}
    workspace = replace(arm.workspace, environment=environment)
    wall_s = 2 * plan.budget_ns / SECOND + 10 * SMALL_S
    limits = replace(bench.limits, wall_s=wall_s, cpu_s=0.0)
    return start_command(workspace, spec, limits, bench.runner_dir, control=ControlChannelUse.LINES)


def _no_server(gone: ServerGone) -> ArmFailure:
    ended = gone.exit
    lost = ArmStartFailure(str(gone).rstrip("."))
    return explained(lost, ended) if ended is not None else lost


class ArmPool:
    """Templates by arm, and why the lost ones were lost. Made by `start_field`.

    Attributes:
        start_ns: CPU time that each process needed to become ready.
        littered: units have left something in folders of theirs.
    """

    def __init__(self) -> None:
        self._secret = token_hex(8)
        self.templates: dict[str, ArmTemplate] = {}
        self.lost: dict[str, ArmFailure] = {}
        self.start_ns: dict[str, int] = {}
        self.littered = False
        self._leftovers: dict[str, LeftoverFiles] = {}

    def lot(self, job: BlockRequest) -> str:
        """Return what draws the outcomes of a block that are looked at, in all arms; empty: all are."""
        baseline = self.templates.get(BASELINE)
        if baseline is None or baseline.work is not WorkKind.CALLS or baseline.jury is not None:
            return ""
        # What a unit has been told for one group says nothing of the next.
        work = f"{self._secret} {job.kind is BlockKind.TWIN} {job.group} {job.start}"
        return sha256(work.encode()).hexdigest()

    async def lose(self, arm: str, error: ArmFailure) -> None:
        """Close an arm and keep the reason."""
        ended = await self.templates.pop(arm).close()
        self.lost[arm] = explained(error, ended)

    async def ready(self, arm: str, deadline_s: float) -> None:
        """Wait until an arm is ready or lost."""
        template = self.templates[arm]
        try:
            self.start_ns[arm] = await template.ready(deadline_s)
            _compare(template, self.templates[BASELINE])
        except ArmFailure as error:
            await self.lose(arm, error)

    def remember(self) -> None:
        """Remember what lies in the arms' own folders; the baseline's two may share theirs."""
        self._leftovers = {
            arm: template.seat.leftovers(template.workspace) for arm, template in self.templates.items()
        }

    def tidy(self) -> frozenset[str]:
        """Remove what units left in folders of theirs; return the arms where that is not possible."""
        for arm in self._leftovers.keys() - self.templates.keys():  # closed, with all that was its own
            del self._leftovers[arm]
        unclean = frozenset(arm for arm, leftovers in self._leftovers.items() if not leftovers.remove())
        self.littered |= any(leftovers.had_some for leftovers in self._leftovers.values())
        return unclean

    def in_shared_memory(self) -> frozenset[str]:
        """Return the names in the host's shared memory that may be an arm's."""
        return read_shared() if self.shares_memory else frozenset()

    @property
    def shares_memory(self) -> bool:
        """Whether what lies in the host's shared memory may be one of the arms'."""
        return any(template.seat.shares_memory for template in self.templates.values())

    def rss_bytes(self) -> int:
        """Return the resident memory of all arms; what they share counts for each."""
        return sum(template.rss_bytes() for template in self.templates.values())

    async def close(self) -> None:
        """Close every arm. Cancelling waits for it."""
        with anyio.move_on_after(CLOSE_S, shield=True):
            async with anyio.create_task_group() as tasks:
                for template in self.templates.values():
                    tasks.start_soon(template.close)


async def start_field(
    bench: RaceEnvironment, arms: Sequence[Arm], plan: RacePlan, hash_seed: int, left_s: float = inf
) -> ArmPool:
    """Start every arm and wait until it is ready or lost; whoever calls this closes what it returns.

    The baseline comes first in `arms`; where it is lost, nothing else is waited for.

    Args:
        left_s: of the race's budget.

    Raises:
        ArmFailure: the process from which the arms are forked does not start, or they cannot be compared.
        RaceBudgetExceeded: the budget was spent before all were ready or lost.
    """
    field = ArmPool()
    levels = sorted({arm.workspace.isolation.level for arm in arms})
    if len(levels) > 1:  # one world is slower than another
        raise ArmFailure(f"its arms have different levels of isolation: {', '.join(levels)}")
    try:
        with anyio.move_on_after(left_s) as scope:
            await _start_all(field, bench, arms, plan, hash_seed)
            await _ready_all(field, arms)
        field.remember()
    except BaseException:
        await field.close()
        raise
    if scope.cancelled_caught:
        await field.close()
        raise RaceBudgetExceeded
    return field


@asynccontextmanager
async def open_field(
    bench: RaceEnvironment, arms: Sequence[Arm], plan: RacePlan, hash_seed: int
) -> AsyncIterator[ArmPool]:
    """Do what `start_field` does, and kill all arms when the block is left."""
    field = await start_field(bench, arms, plan, hash_seed)
    try:
        yield field
    finally:
        await field.close()


class ArmPoolPrestart:
    """A field that is being started, or stands; it is closed unless somebody takes it.

    Args:
        tasks: where it is started; leaving the group waits for its end.
        start: starts it, see `start_field`.
    """

    def __init__(self, tasks: TaskGroup, start: Callable[[], Awaitable[ArmPool]]) -> None:
        self._field: ArmPool | None = None
        self._scope, self._ready, self._over = anyio.CancelScope(), anyio.Event(), anyio.Event()
        tasks.start_soon(self._keep, start)

    async def _keep(self, start: Callable[[], Awaitable[ArmPool]]) -> None:
        try:
            with self._scope:
                self._field = await start()
                self._ready.set()
                await anyio.sleep_forever()
        except Exception:  # noqa: BLE001, S110 - whoever needs one starts it anew, and is told why that fails
            pass
        finally:
            self._ready.set()
            if self._field is not None:
                await self._field.close()
            self._over.set()

    async def take(self) -> ArmPool | None:
        """Return the field when it stands, to be closed by whoever calls this; `None` where it failed."""
        await self._ready.wait()
        field, self._field = self._field, None
        self._scope.cancel()
        return field

    async def drop(self) -> None:
        """End its processes."""
        self._scope.cancel()
        await self._over.wait()


async def _start_all(
    field: ArmPool, bench: RaceEnvironment, arms: Sequence[Arm], plan: RacePlan, hash_seed: int
) -> None:
    """Fork every arm off one process, which then has done its work."""
    server = await start_fork_server(bench, arms[0], plan, hash_seed)
    try:
        for arm in arms:
            field.templates[arm.id] = await start_template(bench, server, arm, plan, hash_seed)
    finally:
        with anyio.move_on_after(CLOSE_S, shield=True):
            await server.close()


async def _ready_all(field: ArmPool, arms: Sequence[Arm]) -> None:
    """Wait until every arm is ready or lost; the others have as long as the baseline took, and more."""
    began = anyio.current_time()
    await field.ready(BASELINE, READY_S)
    if BASELINE not in field.lost:
        deadline_s = PATIENCE_S + SLOW_START * (anyio.current_time() - began)
        for arm in arms[1:]:
            await field.ready(arm.id, deadline_s)


def _compare(template: ArmTemplate, baseline: ArmTemplate) -> None:
    """Refuse an arm that loaded other work than the baseline did, or that has others work for it."""
    if (template.cycles, template.twins) != (baseline.cycles, baseline.twins):
        loaded, wanted = (sum(one.cycles) + sum(one.twins) for one in (template, baseline))
        raise ArmFailure(f"could load {loaded} of {wanted} inputs ({template.why_fewer})")
    if template.helpers > baseline.helpers:
        # What they do is on no clock of ours, and they remember from one unit to the next.
        raise ArmFailure("its import starts processes, which the baseline's does not")
