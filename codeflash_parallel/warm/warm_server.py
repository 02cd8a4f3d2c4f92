"""Warm servers: a runner that waits at a fork point and is forked for each check.

How one check goes. We make the pipes and send the template a ``fork`` order with their ends. It forks twice;
the one in between ends, so the fork becomes a child of our launcher and the template says its pid. The
launcher adopts it as a job of its own, and only then writes the byte on `go` that lets it run. Whatever
happens to the fork is from there on exactly what happens to a child that the launcher has started. A fork
whose `go` ends without that byte leaves by itself.
"""

from __future__ import annotations

from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from codeflash_parallel.process import process_table
from codeflash_parallel.process.launcher.child_connection import (
    ChildConnection,
    ControlChannel,
    ForkGate,
    ProtocolError,
)
from codeflash_parallel.process.launcher.launcher import Launcher
from codeflash_parallel.result.outcome_codes import ExitKind
from codeflash_parallel.result.runtime_protocols import (
    ChannelClosed,
    ChildCommand,
    ProcessExit,
    ProcessLimits,
    ServerGone,
    TemplateReady,
)
from codeflash_parallel.sandbox.runner_command import parse_records

__all__ = ["ServerGone", "TemplateReady", "WarmServer", "start_server"]

_PIPES = ("stdout", "stderr", "records")
#: How much of a template's last words goes into a message.
_WORDS = 500
_NO_FIRST_STEP = "its fork ended before its first step"


class WarmServer:
    """A template and its forks (`result.runtime_protocols.WarmProcess`). Made by `start_server`."""

    def __init__(
        self,
        launcher: Launcher,
        channel: ControlChannel,
        command: ChildCommand,
        ready: TemplateReady,
        generation: int,
    ) -> None:
        self.ready = ready
        self.forks = 0
        self._launcher = launcher
        self._channel = channel
        self._command = command
        self._generation = generation
        self._talking = anyio.Lock()

    async def run(self, spec_path: Path, limits: ProcessLimits, /) -> ProcessExit:
        """Run one check in a fork.

        Cancelling kills the fork's whole tree first; the server stays usable.

        Args:
            spec_path: a complete spec on disk (`process.runner.write_spec`).
            limits: of the fork and its descendants; its wall clock starts when it is adopted.

        Raises:
            ServerGone: the template has died or does not answer. The check has not begun, or was killed in
                its first steps: the launcher lets it go on before we hear of it.
            InternalError: the launcher is gone.
            EnvironmentFault: no descriptors are left.
        """
        with closing(ForkGate()) as gate:
            connection = self._launcher.reserve(limits, self._generation + 1)
            begin = partial(self._fork, gate, str(spec_path), "")
            ended = await self._launcher.follow(connection, begin)
            if not gate.is_passed():  # killed before its first step, not by us
                raise _gone(await self._channel.close(), ProtocolError(_NO_FIRST_STEP))
        return ended

    async def advance(self, until: str, deadline_s: float, spec_path: Path | None = None) -> WarmServer:
        """Fork a template for a later point.

        Args:
            until: that point.
            deadline_s: how long it may take to get there.
            spec_path: its spec on disk; `None`: this template's.

        Raises:
            ServerGone: this template has died, or the next one does not reach its point.
            InternalError: the launcher is gone.
            EnvironmentFault: no descriptors are left.
        """
        with closing(ForkGate()) as gate:
            connection = self._launcher.reserve(self._command.limits, self._generation + 1)
            begin = partial(self._fork, gate, str(spec_path or self._command.argv[2]), until)
            channel = await self._launcher.hold(connection, begin)
        return await _when_ready(self._launcher, channel, self._command, deadline_s, self._generation + 1)

    def rss_bytes(self) -> int:
        """Return the template's resident memory now, 0 when it is gone."""
        proc = None if self._channel.ended else process_table.process(self._channel.pid)
        return proc.rss_bytes if proc else 0

    async def close(self) -> ProcessExit:
        """End the template; forks that still run go on. A second call returns the same."""
        async with self._talking:
            return await self._channel.close()

    # --- forking ---------------------------------------------------------------------------------------

    async def _fork(self, gate: ForkGate, spec: str, until: str, connection: ChildConnection) -> None:
        """Have the template forked, the fork adopted, and let it run; not to be cancelled in between."""
        connection.connect([*_PIPES, "control"] if until else _PIPES)
        order = {"order": connection.number, "spec": spec, "until": until}
        async with self._talking:
            with anyio.CancelScope(shield=True):
                try:
                    await self._launcher.fork(self._channel, order, gate, connection)
                except (ChannelClosed, TimeoutError, ProtocolError) as error:
                    raise _gone(await self._channel.close(), error) from error
                if not connection.pid:
                    raise _gone(await self._channel.close(), ProtocolError(_NO_FIRST_STEP))
        self.forks += not until


async def start_server(launcher: Launcher, command: ChildCommand, deadline_s: float) -> WarmServer:
    """Start a template and wait until it stands at its point.

    Args:
        launcher: starts and follows it and its forks.
        command: made by `start_command` with `Control.LINES`, of a spec with `serve`.
        deadline_s: how long it may take to get there.

    Raises:
        ServerGone: it ended before, with the runner's last words, or was too slow.
        InternalError: the launcher is gone.
        EnvironmentFault: no descriptors are left.
    """
    channel = await launcher.open(command)
    return await _when_ready(launcher, channel, command, deadline_s, 0)


async def _when_ready(
    launcher: Launcher, channel: ControlChannel, command: ChildCommand, deadline_s: float, generation: int
) -> WarmServer:
    """Wait until a template says that it stands at its point."""
    try:
        ready = _readiness(await channel.receive_message(deadline_s, "ready"))
        await launcher.rest(channel)
    except (ChannelClosed, TimeoutError, ProtocolError) as error:
        raise _gone(await channel.close(), error) from error
    except BaseException:
        await channel.close()
        raise
    return WarmServer(launcher, channel, command, ready, generation)


def _readiness(message: dict[str, Any]) -> TemplateReady:
    match message:
        case {"t": "ready", "point": str(point), "unfit": str(unfit)}:
            return TemplateReady(point=point, unfit=unfit, rss_bytes=message.get("rss_bytes", 0))
    raise ProtocolError(f"it begins with {message}")


def _gone(ended: ProcessExit, error: Exception) -> ServerGone:
    """Tell what has become of a template, with the runner's last words."""
    why = "it does not answer" if isinstance(error, TimeoutError) else str(error)
    words = _last_words(ended)
    return ServerGone(f"The warm server is gone: {why}{f' ({words})' if words else ''}.", ended)


def _last_words(ended: ProcessExit) -> str:
    told = [r for r in parse_records(ended.records) if r.get("t") in {"error", "internal"}]
    if told:
        return str(told[-1].get("message", ""))[-_WORDS:]
    by_us = ended.ended is ExitKind.KILLED
    return (ended.stderr.strip() or ("" if by_us else ended.message))[-_WORDS:]
