"""Line profiles of the targets, made in slots. They are evidence, never a condition: failing is a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codeflash_parallel.model.line_profile import LineProfile, LineTiming
from codeflash_parallel.model.outcome import Ended
from codeflash_parallel.model.workspace import Exit, Limits, Runner, Workspace
from codeflash_parallel.process.guest import guest_command, parse_records, whole_number

#: Longest line of source kept; the rest of a longer one says nothing about time.
MAX_TEXT = 500

#: How much of a failing guest's own words is kept.
SAID_CHARS = 300


#: What the guest's own tracers are called in full.
_MODULES = {"settrace": "sys.settrace", "monitoring": "sys.monitoring"}


@dataclass(frozen=True, kw_only=True, slots=True)
class NotProfiled:
    """There is no profile, and why, one sentence."""

    reason: str


async def profile(
    runner: Runner, workspace: Workspace, *, spec: Mapping[str, Any], limits: Limits, guest_dir: Path
) -> LineProfile | NotProfiled:
    """Profile the targets' lines over the captured calls in a workspace.

    Args:
        runner: starts the guest.
        workspace: holds the code to be profiled.
        spec: `targets`, `prove`, `inputs` and what else the guest's mode `profile` takes; `mode` is set here.
        limits: of the guest; tracing costs a factor of ten to fifty, its deadline is the caller's choice.
        guest_dir: what `install_guest` returned.

    Returns:
        The profile, or why there is none. Never raises for a candidate's fault.
    """
    command = guest_command(workspace, {**spec, "mode": "profile"}, limits, guest_dir)
    return read_profile(await runner.run(command))


def read_profile(ended: Exit) -> LineProfile | NotProfiled:
    """Return the profile among the records of a guest, or why there is none."""
    records = list(parse_records(ended.records))
    for record in records:
        if record.get("t") == "profile":
            try:
                tracer = str(record["tracer"])
                found = LineProfile(tracer=_MODULES.get(tracer, tracer), lines=_lines(record["lines"]))
            except (KeyError, OverflowError, TypeError, ValueError):
                return NotProfiled(reason="The profiler's record is malformed.")
            return found if found.lines else NotProfiled(reason="No line of the targets was executed.")
    return NotProfiled(reason=_why(ended, records))


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


def _why(ended: Exit, records: list[dict[str, Any]]) -> str:
    said = [str(record.get("message", "")) for record in records if record.get("t") == "error"]
    if said:
        return f"The profiler failed: {said[-1][:SAID_CHARS]}"
    match ended.ended:
        case Ended.EXITED:
            return f"The profiler ended with status {ended.status} and no profile."
        case Ended.CPU_DEADLINE | Ended.WALL_DEADLINE:
            return "The profiler did not end in time."
        case Ended.MEMORY_LIMIT | Ended.OOM_KILLED:
            of_whom = (
                "its memory limit" if ended.ended is Ended.MEMORY_LIMIT else "the end of the machine's memory"
            )
            return f"The profiler reached {of_whom}."
        case Ended.SIGNALLED:
            return f"The profiler was ended by signal {abs(ended.status)}."
        case Ended.NOT_STARTED | Ended.KILLED:
            return f"The profiler did not run: {ended.message or ended.ended}."
