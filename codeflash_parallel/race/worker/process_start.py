"""Start the processes of a race: one from which all arms are forked, and the arms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from codeflash_parallel.race.plan import Arm, CostGroup, RacePlan, WorkKind
from codeflash_parallel.race.worker.arm_failure import ArmFailure, ArmStartFailure, explained
from codeflash_parallel.race.worker.arm_worker import SECOND, SMALL_S, ArmTemplate
from codeflash_parallel.race.worker.result_judge import ResultJudge
from codeflash_parallel.result.runtime_protocols import (
    ChildCommand,
    ForkServerProtocol,
    ProcessLimits,
    ProcessRunner,
    ServerGone,
)
from codeflash_parallel.sandbox.runner_command import ControlChannelUse, guest_command


@dataclass(frozen=True, kw_only=True, slots=True)
class RaceEnvironment:
    """Where arms run.

    Attributes:
        runner: starts their processes.
        guest_dir: what `install_guest` returned.
        limits: of each arm's processes; their times are replaced by the race's own.
        jury: judges results of captured calls; `None`: digests are compared.
    """

    runner: ProcessRunner
    guest_dir: Path
    limits: ProcessLimits
    jury: ResultJudge | None = None


async def start_fork_server(
    bench: RaceEnvironment, arm: Arm, plan: RacePlan, hash_seed: int
) -> ForkServerProtocol:
    """Start the process from which the arms of one layout are forked; whoever calls this closes it.

    Args:
        arm: in whose workspace it lives, the baseline.

    Raises:
        ArmLost: it does not come up.
    """
    command = _command(bench, arm, {"mode": "forkserver", "work": plan.work.value}, plan, hash_seed)
    try:
        return await bench.runner.fork_server(command, SMALL_S)
    except ServerGone as error:
        raise _no_server(error) from error


async def start_template(
    bench: RaceEnvironment, server: ForkServerProtocol, arm: Arm, plan: RacePlan, hash_seed: int
) -> ArmTemplate:
    """Start an arm's process; whoever calls this closes what it returns.

    Raises:
        ArmLost: the fork server is gone.
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
    return guest_command(workspace, spec, limits, bench.guest_dir, control=ControlChannelUse.LINES)


def _no_server(gone: ServerGone) -> ArmFailure:
    ended = gone.exit
    lost = ArmStartFailure(str(gone).rstrip("."))
    return explained(lost, ended) if ended is not None else lost
