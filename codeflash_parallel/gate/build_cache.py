"""Builds of the two sides: a command is run in a slot, and the tree that it leaves is kept by its origin."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

import anyio.to_thread

from codeflash_parallel.config.environment import identity
from codeflash_parallel.process.files import write_atomically
from codeflash_parallel.result.candidate_model import name_of
from codeflash_parallel.result.errors import EnvironmentFault
from codeflash_parallel.result.outcome_codes import ExitKind
from codeflash_parallel.result.runtime_protocols import ProcessExit, ProcessLimits, Workspace
from codeflash_parallel.run.setup.evaluator_setup import Setup
from codeflash_parallel.run.setup.project_interpreter import environment_stamp
from codeflash_parallel.sandbox.runner_command import parse_records, start_command
from codeflash_parallel.workspace.slot_pool import open_pool
from codeflash_parallel.workspace.snapshot.derived_snapshot import with_tree_of
from codeflash_parallel.workspace.snapshot.snapshot import Snapshot, SnapshotRequest

#: Wall seconds that a build may take.
_LONGEST_S = 3600.0
#: How much of what a failing command said is told: its last lines.
_SAID_LINES, _SAID_CHARS = 16, 1500


async def built(
    setup: Setup, snapshot: Snapshot, command: str, run_id: str, side: str, tell: Callable[[str], None]
) -> Snapshot:
    """Return a snapshot with what a command builds in its tree; the command is run once for each content.

    Args:
        setup: of the evaluator.
        snapshot: of one side.
        command: for a shell, run in the project's folder. `python` is the project's interpreter.
        run_id: names the slots' owner.
        side: its name, for messages.
        tell: is told what is done.

    Raises:
        EnvironmentFault: `PREPARE_FAILED`, with what it said last. Cancelling kills it.
    """
    key = name_of(
        snapshot.tree,
        command,
        str(setup.repository.project),
        environment_stamp(setup.interpreter),
        identity(os.environ, setup.settings.pass_env),
        setup.isolation.level.value,
    )
    record = setup.home / "builds" / f"{key}.json"
    with suppress(OSError, ValueError, TypeError):
        known = replace(snapshot, **json.loads(record.read_text(encoding="utf-8")))
        if await setup.mirror.holds(known):
            setup.mirror.adopt(known, SnapshotRequest(base=snapshot.base))
            tell(f"the {side}'s build is known")
            return known
    tell(f"the {side} is built: {command}")
    opened = open_pool(
        setup.mirror,
        snapshot,
        size=1,
        interpreter=setup.interpreter,
        run_id=run_id,
        environment_for=setup.environment,
        isolation=setup.isolation,
    )
    async with opened as pool:
        workspace = pool.baseline.workspace
        await _run(setup, _apart(workspace), command, side)
        make = partial(with_tree_of, setup.mirror, snapshot, workspace.root)
        made = await anyio.to_thread.run_sync(make)
    data = json.dumps({"commit": made.commit, "tree": made.tree}).encode()
    await anyio.to_thread.run_sync(write_atomically, record, data)
    return made


def _apart(workspace: Workspace) -> Workspace:
    """Return a workspace in which pip installs beside the tree: one environment cannot hold both sides."""
    prefix = workspace.seen(workspace.private) / "prefix"
    return replace(workspace, environment={**workspace.environment, "PIP_PREFIX": str(prefix)})


async def _run(setup: Setup, workspace: Workspace, command: str, side: str) -> None:
    limits = ProcessLimits(wall_s=_LONGEST_S, memory_bytes=setup.shares.memory_bytes)
    spec = {"mode": "command", "command": ["sh", "-c", command]}
    done = await setup.launcher.run(start_command(workspace, spec, limits, setup.runner_dir))
    statuses = [r.get("status") for r in parse_records(done.records) if r.get("t") == "command"]
    if done.ended is ExitKind.EXITED and statuses == [0]:
        return
    how = f"ended with status {statuses[-1]}" if statuses else f"was ended ({done.ended.value})"
    message = f"--prepare {command!r} {how} on the {side}: {_last_words(done)}"
    hint = "It runs without network, unless --allow-network; it may write to its copy of the tree."
    raise EnvironmentFault("PREPARE_FAILED", message, hint)


def _last_words(done: ProcessExit) -> str:
    text = f"{done.stdout}\n{done.stderr}".strip() or done.message
    return "\n".join(text.splitlines()[-_SAID_LINES:])[-_SAID_CHARS:]
