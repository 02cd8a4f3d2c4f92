"""A grader of the user's own on a candidate: in a slot, confined as checks are; it prints JSON scores."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from codeflash_parallel.result.candidate_model import Submission, Unappliable
from codeflash_parallel.result.errors import UsageError
from codeflash_parallel.result.outcome_codes import ExitKind
from codeflash_parallel.result.runtime_protocols import ProcessExit, ProcessLimits
from codeflash_parallel.run.run_targets import targets_of
from codeflash_parallel.run.setup.evaluator_resources import EvaluatorResources
from codeflash_parallel.sandbox.runner_command import parse_records, start_command
from codeflash_parallel.workspace.snapshot.candidate_builder import materialise

#: How much of what a failing command said is told.
_SAID_CHARS = 2000
#: Longest time of a command where the settings name no wall budget.
_WALL_S = 3600.0


async def grade(
    resources: EvaluatorResources, submission: Submission, command: Sequence[str], run_id: str
) -> dict[str, Any]:
    """Return the JSON object that a command prints in a slot that holds a candidate.

    The command is run in the project's folder, `python` is the project's interpreter, and it may do what
    tests may do. It ends with status 0 and prints one JSON object, and nothing else, to its standard output.

    Args:
        resources: of the repository.
        run_id: names the slots' owner.

    Raises:
        UsageError: `DOES_NOT_APPLY`, `COMMAND_FAILED`, or `BAD_SCORES`.
        EnvironmentFault: the machine, or the snapshot. Cancelling kills the command.
    """
    setup = resources.setup
    limits = ProcessLimits(
        wall_s=setup.settings.wall_budget or _WALL_S,
        memory_bytes=setup.shares.memory_bytes,
        output_bytes=1 << 20,
    )
    async with setup.quiet.shared():
        snapshot = await resources.snapshot()
        pool = await resources.pool(snapshot, run_id)
        targets = await targets_of(setup.mirror, snapshot, setup.settings.functions, [submission])
        made = await materialise(setup.mirror, snapshot, submission, targets, interpreter=setup.interpreter)
        if isinstance(made, Unappliable):
            raise UsageError(made.code, made.reason)
        async with pool.acquire() as slot:
            await slot.stage(made.edits)
            spec = {"mode": "command", "command": list(command)}
            done = await setup.launcher.run(start_command(slot.workspace, spec, limits, setup.runner_dir))
    return scores_of(done, command)


def scores_of(done: ProcessExit, command: Sequence[str]) -> dict[str, Any]:
    """Return what a command printed.

    Raises:
        UsageError: `COMMAND_FAILED` or `BAD_SCORES`, with what it said.
        EnvironmentFault: `NO_MEMORY`: it was killed for want of it.
    """
    name = " ".join(command)[:_SAID_CHARS]
    said = (done.stderr or done.stdout or done.message)[-_SAID_CHARS:]
    statuses = [
        record.get("status") for record in parse_records(done.records) if record.get("t") == "command"
    ]
    if done.ended is not ExitKind.EXITED or not statuses:
        raise UsageError("COMMAND_FAILED", f"`{name}` was ended ({done.ended.value}): {said}")
    if statuses[-1] != 0:
        how = "was not found" if statuses[-1] is None else f"ended with status {statuses[-1]}"
        raise UsageError("COMMAND_FAILED", ": ".join(filter(None, (f"`{name}` {how}", said))))
    try:
        scores = json.loads(done.stdout)
        json.dumps(scores, allow_nan=False)  # NaN is read by us, and by few others
    except (ValueError, RecursionError) as error:
        raise UsageError("BAD_SCORES", f"`{name}` printed no JSON: {error}.") from error
    if not isinstance(scores, dict):
        raise UsageError("BAD_SCORES", f"`{name}` printed JSON that is no object.")
    return scores
