"""Starting and ending the launcher process, with or without an event loop."""

from __future__ import annotations

import os
import resource
import secrets
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from codeflash_parallel.process.resource_shortage import LEAST_DESCRIPTORS, too_few_descriptors
from codeflash_parallel.process.supervisor.supervised_job import KILL_S
from codeflash_parallel.result.errors import EnvironmentFault

#: The launcher reports a tree as unkillable after `KILL_S`; it is stuck itself when nothing comes by then.
ANSWER_S = KILL_S + 3.0
_MAIN = Path(__file__).parent.parent / "supervisor" / "supervisor_main.py"


@dataclass(frozen=True, kw_only=True, slots=True)
class LauncherProcess:
    """A launcher that runs, not yet in the care of an event loop.

    Attributes:
        popen: the process.
        link: our end of the socket pair.
        prefix: what the markers of its jobs start with; unique on this host.
    """

    popen: subprocess.Popen[bytes]
    link: socket.socket
    prefix: str

    def stop(self) -> None:
        """End it, and every job it has; blocks for as long as the killing takes (2 s at most)."""
        self.link.close()
        try:
            self.popen.wait(ANSWER_S)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()


def start_launcher_process() -> LauncherProcess:
    """Start a launcher; best done before an event loop runs and while there is one thread.

    Returns:
        What `open_launcher` takes over; call `stop` if it never does.

    Raises:
        EnvironmentFault: the machine cannot start a process, or too few files may be open for one.
    """
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if allowed < LEAST_DESCRIPTORS and allowed != resource.RLIM_INFINITY:
        raise too_few_descriptors(f"the limit is {allowed}")
    ours, theirs = socket.socketpair()
    with theirs:
        argv = [sys.executable, "-I", "-S", "-X", "utf8", str(_MAIN), str(theirs.fileno()), str(os.getpid())]
        try:
            popen = subprocess.Popen(
                argv,
                cwd="/",
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        except OSError as error:
            ours.close()
            raise EnvironmentFault("CANNOT_START_PROCESS", f"No process can be started: {error}.") from error
    ours.setblocking(False)
    return LauncherProcess(popen=popen, link=ours, prefix=f"{secrets.token_hex(8)}-")
