"""Line profiles of the targets, made in slots. They are evidence, never a condition: failing is a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codeflash_parallel.result.outcome_codes import ExitKind
from codeflash_parallel.result.result_model import LineProfile, LineTiming
from codeflash_parallel.result.runtime_protocols import ProcessExit, ProcessLimits, ProcessRunner, Workspace
from codeflash_parallel.sandbox.runner_command import parse_records, start_command, whole_number

#: Longest line of source kept; the rest of a longer one says nothing about time.
MAX_TEXT = 500

#: How much of a failing runner's own words is kept.
SAID_CHARS = 300


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfileFailure:
    """There is no profile, and why, one sentence."""

    reason: str


async def profile(
    launcher: ProcessRunner,
    workspace: Workspace,
    *,
    spec: Mapping[str, Any],
    limits: ProcessLimits,
    runner_dir: Path,
) -> LineProfile | ProfileFailure:
    """Profile the targets' lines over the captured calls in a workspace.

    Args:
        launcher: starts the runner.
        workspace: holds the code to be profiled.
        spec: `targets`, `prove`, `inputs` and what else the runner's mode `profile` takes; `mode` is set.
        limits: of the runner; tracing costs a factor of ten to fifty, its deadline is the caller's choice.
        runner_dir: what `install_runner` returned.

    Returns:
        The profile, or why there is none. Never raises for a candidate's fault.
    """
    command = start_command(workspace, {**spec, "mode": "profile"}, limits, runner_dir)
    return read_profile(await launcher.run(command))


def read_profile(ended: ProcessExit) -> LineProfile | ProfileFailure:
    """Return the profile among the records of a runner, or why there is none."""
    records = list(parse_records(ended.records))
    for record in records:
        if record.get("t") == "profile":
            try:
                found = LineProfile(tracer=str(record["tracer"]), lines=_lines(record["lines"]))
            except (KeyError, OverflowError, TypeError, ValueError):
                return ProfileFailure(reason="The profiler's record is malformed.")
            return found if found.lines else ProfileFailure(reason="No line of the targets was executed.")
    return ProfileFailure(reason=_why(ended, records))


def _lines(lines: list[Mapping[str, Any]]) -> tuple[LineTiming, ...]:
    timings = [
        LineTiming(
            path=str(line["path"]),
            line=whole_number(line["line"]),
            hits=whole_number(line["hits"]),
            time_ns=whole_number(line["ns"]),
            text=str(line["text"])[:MAX_TEXT],
        )
        for line in lines
    ]
    return tuple(sorted(timings, key=lambda timing: (timing.path, timing.line)))


def _why(ended: ProcessExit, records: list[dict[str, Any]]) -> str:
    said = [str(record.get("message", "")) for record in records if record.get("t") == "error"]
    if said:
        return f"The profiler failed: {said[-1][:SAID_CHARS]}"
    match ended.ended:
        case ExitKind.EXITED:
            return f"The profiler ended with status {ended.status} and no profile."
        case ExitKind.CPU_DEADLINE | ExitKind.WALL_DEADLINE:
            return "The profiler did not end in time."
        case ExitKind.MEMORY_LIMIT | ExitKind.OOM_KILLED:
            of_whom = (
                "its memory limit"
                if ended.ended is ExitKind.MEMORY_LIMIT
                else "the end of the machine's memory"
            )
            return f"The profiler reached {of_whom}."
        case ExitKind.SIGNALLED:
            return f"The profiler was ended by signal {abs(ended.status)}."
        case ExitKind.NOT_STARTED | ExitKind.KILLED:
            return f"The profiler did not run: {ended.message or ended.ended}."
