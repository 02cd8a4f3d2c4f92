"""Warm servers: a guest that waits at a fork point and is forked for each check.

How one check goes. We make the pipes and send the template a ``fork`` order with their ends. It forks twice;
the one in between ends, so the fork becomes a child of our launcher and the template says its pid. The
launcher adopts it as a job of its own, and only then one byte on `go` lets it run. Whatever happens to the
fork is from there on exactly what happens to a child that the launcher has started.
"""

from __future__ import annotations

from pathlib import Path

from codeflash_parallel.model.workspace import Command, Exit, Limits, Ready, ServerGone
from codeflash_parallel.process.launcher import Launcher

__all__ = ["Ready", "ServerGone", "WarmServer", "start_server"]


class WarmServer:
    """A template and its forks (`model.workspace.Server`). Made by `start_server`."""

    ready: Ready
    forks: int

    async def run(self, spec_path: Path, limits: Limits, /) -> Exit:
        """Run one check in a fork; one at a time.

        Cancelling kills the fork's whole tree before the cancellation goes on; the server stays usable.

        Args:
            spec_path: a complete spec on disk (`process.guest.write_spec`).
            limits: of the fork and its descendants; its wall clock starts when it is adopted.

        Raises:
            ServerGone: the template has died or does not answer; nothing of the check has run.
            InternalError: the launcher is gone.
            EnvironmentFault: no descriptors are left.
        """
        raise NotImplementedError

    async def advance(self, until: str, deadline_s: float) -> WarmServer:
        """Fork a template that goes on to a later point.

        Args:
            until: that point.
            deadline_s: how long it may take to get there.

        Raises:
            ServerGone: this template has died, or the next one does not reach its point.
        """
        raise NotImplementedError

    def rss_bytes(self) -> int:
        """Return the template's resident memory now, 0 when it is gone."""
        raise NotImplementedError

    async def close(self) -> Exit:
        """End the template; forks that still run go on. A second call returns the same."""
        raise NotImplementedError


async def start_server(launcher: Launcher, command: Command, deadline_s: float) -> WarmServer:
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
    raise NotImplementedError
