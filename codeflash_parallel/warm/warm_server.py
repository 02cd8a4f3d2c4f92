"""Warm servers: a guest that waits at a fork point and is forked for each check.

How one check goes. We make the pipes and send the template a ``fork`` order with their ends. It forks twice;
the one in between ends, so the fork becomes a child of our launcher and the template says its pid. The
launcher adopts it as a job of its own, and only then writes the byte on `go` that lets it run. Whatever
happens to the fork is from there on exactly what happens to a child that the launcher has started. A fork
whose `go` ends without that byte leaves by itself.
"""

from __future__ import annotations

import json
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from codeflash_parallel.process import process_table
from codeflash_parallel.process.launcher.child_connection import ChildConnection, ControlChannel
from codeflash_parallel.process.launcher.fork_gate import ForkGate
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

#: A fork and its adoption take some milliseconds; a template that needs this long is stuck.
_ANSWER_S = 10.0
_PIPES = ("stdout", "stderr", "records")
#: How much of a template's last words goes into a message.
_WORDS = 500


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
        self._running = anyio.Lock()
        self._talking = anyio.Lock()

    async def run(self, spec_path: Path, limits: ProcessLimits, /) -> ProcessExit:
        """Run one check in a fork; one at a time.

        Cancelling kills the fork's whole tree before the cancellation goes on; the server stays usable.

        Args:
            spec_path: a complete spec on disk (`process.guest.write_spec`).
            limits: of the fork and its descendants; its wall clock starts when it is adopted.

        Raises:
            ServerGone: the template has died or does not answer. The check has not begun, or was killed in
                its first steps: the launcher lets it go on before we hear of it.
            InternalError: the launcher is gone.
            EnvironmentFault: no descriptors are left.
        """
        async with self._running:
            with closing(ForkGate()) as gate:
                connection = self._launcher.reserve(limits, self._generation + 1)
                begin = partial(self._fork, gate, str(spec_path), "")
                ended = await self._launcher.follow(connection, begin)
                if not gate.is_passed():  # killed by somebody else before its first step
                    raise _gone(await self._channel.close(), _Refusal("its fork ended before its first step"))
            return ended

    async def advance(self, until: str, deadline_s: float, spec_path: Path | None = None) -> WarmServer:
        """Fork a template that goes on to a later point.

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
        async with self._talking:
            with anyio.CancelScope(shield=True):
                try:
                    await self._fork_in_time(gate, spec, until, connection)
                except (ChannelClosed, TimeoutError, _Refusal) as error:
                    raise _gone(await self._channel.close(), error) from error
        self.forks += not until

    async def _fork_in_time(self, gate: ForkGate, spec: str, until: str, connection: ChildConnection) -> None:
        order = {
            "op": "fork",
            "order": connection.number,
            "spec": spec,
            "marker": connection.marks.marker,
            "tag": connection.marks.tag,
            "until": until,
        }
        with anyio.fail_after(_ANSWER_S):
            ends = list(connection.descriptors().values())
            ends.insert(len(_PIPES), gate.entrance)
            pid = await self._ask(order, ends)
            connection.handed_over()
            await self._launcher.adopt(connection, pid, gate.key)
            if not connection.pid:
                raise _Refusal("its fork ended before its first step")

    async def _ask(self, order: dict[str, Any], descriptors: list[int]) -> int:
        await self._channel.send(json.dumps(order).encode(), descriptors)
        match _message(await self._channel.receive(_ANSWER_S)):
            case {"t": "forked", "pid": int(pid)}:
                return pid
            case {"t": "refused", "why": str(why)}:
                raise _Refusal(why)
            case answer:
                raise _Refusal(f"it answers {answer}")


class _Refusal(Exception):  # noqa: N818 - a state of the template
    """The template cannot or will not fork."""


async def start_server(launcher: Launcher, command: ChildCommand, deadline_s: float) -> WarmServer:
    """Start a template and wait until it stands at its point.

    Args:
        launcher: starts and follows it and its forks.
        command: made by `guest_command` with `Control.LINES`, of a spec with `serve`.
        deadline_s: how long it may take to get there.

    Raises:
        ServerGone: it ended before, with the guest's last words, or was too slow.
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
        ready = _readiness(_message(await channel.receive(deadline_s)))
        await launcher.rest(channel)
    except (ChannelClosed, TimeoutError, _Refusal) as error:
        raise _gone(await channel.close(), error) from error
    except BaseException:
        await channel.close()
        raise
    return WarmServer(launcher, channel, command, ready, generation)


def _readiness(message: dict[str, Any]) -> TemplateReady:
    match message:
        case {"t": "ready", "point": str(point), "fit": bool(fit)}:
            return TemplateReady(
                point=point,
                fit=fit,
                unfit=message.get("unfit", ""),
                rss_bytes=message.get("rss_bytes", 0),
                swappable=message.get("swappable", False),
                why=message.get("why", ""),
                called_early=message.get("called_early", 0),
            )
    raise _Refusal(f"it begins with {message}")


def _message(line: bytes) -> dict[str, Any]:
    with suppress(ValueError):
        message = json.loads(line)
        if isinstance(message, dict):
            return message
    raise _Refusal(f"it says {line[:_WORDS]!r}")


def _gone(ended: ProcessExit, error: Exception) -> ServerGone:
    """Tell what has become of a template, with the guest's last words."""
    why = "it does not answer" if isinstance(error, TimeoutError) else str(error)
    words = _last_words(ended)
    return ServerGone(f"The warm server is gone: {why}{f' ({words})' if words else ''}.", ended)


def _last_words(ended: ProcessExit) -> str:
    told = [r for r in parse_records(ended.records) if r.get("t") in {"error", "internal"}]
    if told:
        return str(told[-1].get("message", ""))[-_WORDS:]
    by_us = ended.ended is ExitKind.KILLED
    return (ended.stderr.strip() or ("" if by_us else ended.message))[-_WORDS:]
