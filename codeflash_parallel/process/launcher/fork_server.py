"""The evaluator's half of a fork server: children that are forked off one bare interpreter.

Unlike a warm server (`warm.warm_server`) it has run nothing of a project; a child does whatever its command
says, as if it had been started anew, in an environment of its own.
"""

from __future__ import annotations

import json
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from codeflash_parallel.process.launcher.child_connection import ChildConnection, ControlChannel
from codeflash_parallel.process.launcher.fork_gate import ForkGate
from codeflash_parallel.result.runtime_protocols import ChannelClosed, ChildCommand, ProcessExit, ServerGone

if TYPE_CHECKING:
    from codeflash_parallel.process.launcher.launcher import Launcher

#: A fork and its adoption take some milliseconds; a server that needs this long is stuck.
_ANSWER_S = 10.0

_PIPES = ("stdout", "stderr", "records", "control")

#: A child is one fork away from what the launcher started.
_GENERATION = 1


class LauncherForkServer:
    """The server (`result.runtime_protocols.ForkServerProtocol`). Made by `start_fork_server`."""

    def __init__(self, launcher: Launcher, channel: ControlChannel) -> None:
        self._launcher = launcher
        self._channel = channel
        self._talking = anyio.Lock()

    async def open(self, command: ChildCommand, /) -> ControlChannel:
        """Fork a child with a control channel.

        Args:
            command: made by `guest_command` with `Control.LINES`; its interpreter must be the server's.

        Raises:
            ServerGone: the server has died or does not answer.
            InternalError: the launcher is gone.
            EnvironmentFault: no descriptors are left.
        """
        with closing(ForkGate()) as gate:
            connection = self._launcher.reserve(command.limits, _GENERATION)
            return await self._launcher.hold(connection, partial(self._fork, gate, command))

    async def close(self) -> ProcessExit:
        """End the server; its children go on. A second call returns the same."""
        async with self._talking:
            return await self._channel.close()

    async def _fork(self, gate: ForkGate, command: ChildCommand, connection: ChildConnection) -> None:
        """Have a child forked and adopted, and let it run; not to be cancelled in between."""
        connection.connect(_PIPES)
        async with self._talking:
            with anyio.CancelScope(shield=True):
                try:
                    with anyio.fail_after(_ANSWER_S):
                        await self._fork_in_time(gate, command, connection)
                except (ChannelClosed, TimeoutError, ValueError) as error:
                    raise ServerGone(
                        f"The fork server is gone: {error}.", await self._channel.close()
                    ) from error

    async def _fork_in_time(self, gate: ForkGate, command: ChildCommand, connection: ChildConnection) -> None:
        marks = connection.marks
        order = {
            "op": "fork",
            "spec": command.argv[2],
            "environment": dict(command.environment),
            "marker": marks.marker,
            "tag": marks.tag,
        }
        ends = list(connection.descriptors().values())
        ends.insert(_PIPES.index("control"), gate.entrance)
        await self._channel.send(json.dumps(order).encode(), ends)
        pid = _field(await self._channel.receive(_ANSWER_S), "forked", "pid")
        connection.handed_over()
        await self._launcher.adopt(connection, pid, gate.key)


async def start_fork_server(
    launcher: Launcher, command: ChildCommand, deadline_s: float
) -> LauncherForkServer:
    """Start a fork server and wait until it is up.

    Args:
        launcher: starts and follows it and its children.
        command: made by `guest_command` with `Control.LINES`, of a spec with the mode `forkserver`.
        deadline_s: how long it may take.

    Raises:
        ServerGone: it does not come up.
        InternalError: the launcher is gone.
        EnvironmentFault: no descriptors are left.
    """
    channel = await launcher.open(command)
    try:
        _expect(await channel.receive(deadline_s), "ready")
        await launcher.rest(channel)
    except (ChannelClosed, TimeoutError, ValueError) as error:
        raise ServerGone(f"The fork server does not come up: {error}.", await channel.close()) from error
    except BaseException:
        await channel.close()
        raise
    return LauncherForkServer(launcher, channel)


def _expect(line: bytes, kind: str) -> dict[str, Any]:
    message = json.loads(line)
    if not isinstance(message, dict) or message.get("t") != kind:
        raise ValueError(f"it says {line[:200]!r}")
    return message


def _field(line: bytes, kind: str, name: str) -> int:
    return int(_expect(line, kind)[name])
