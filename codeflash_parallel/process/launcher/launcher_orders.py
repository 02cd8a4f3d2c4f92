"""What the evaluator tells its launcher to do."""

from __future__ import annotations

from codeflash_parallel.process.launcher.child_connection import ChildConnection
from codeflash_parallel.process.message_frames import CONTROL_FD, RECORDS_FD, Message, portable
from codeflash_parallel.result.runtime_protocols import ChildCommand


def start_order(connection: ChildConnection, command: ChildCommand) -> Message:
    """Return the order to start a child; the connection's descriptors go with it."""
    return {
        **_job("start", connection),
        "argv": [portable(_numbered(argument)) for argument in command.argv],
        "cwd": portable(str(command.cwd)),
        "environment": {portable(k): portable(v) for k, v in command.environment.items()},
        "descriptors": list(connection.descriptors()),
    }


def adopt_order(connection: ChildConnection, pid: int) -> Message:
    """Return the order to follow a process, a child of the launcher by now, and to let it go on.

    The pipe on which it waits for `wire.GO` goes with it.
    """
    return {**_job("adopt", connection), "pid": pid}


def kill_order(connection: ChildConnection, why: str) -> Message:
    """Return the order to kill a job's whole tree."""
    return {"op": "kill", "job": connection.number, "why": why}


def rest_order(connection: ChildConnection) -> Message:
    """Return the order not to look any more at what a job uses: it only waits."""
    return {"op": "rest", "job": connection.number}


def _job(op: str, connection: ChildConnection) -> Message:
    marks, limits = connection.marks, connection.limits
    return {
        "op": op,
        "job": connection.number,
        "marker": marks.marker,
        "tag": marks.tag,
        "cpu_s": limits.cpu_s,
        "wall_s": limits.wall_s,
        "memory_bytes": limits.memory_bytes,
    }


def _numbered(argument: str) -> str:
    return argument.replace("{records}", str(RECORDS_FD)).replace("{control}", str(CONTROL_FD))
