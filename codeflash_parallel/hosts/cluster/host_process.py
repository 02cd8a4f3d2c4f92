"""The process that executes a job on a host, started by the engine's worker; and its messages. Light.

It ends itself, with everything below it, when its standard input ends: at the latest when the worker dies.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

#: A process that was told to end has so long before it is killed; its children then end with it.
_GRACE_S = 1.5
#: How much of what a process that died said last is told.
_SAID_CHARS = 1500


def messages_of(job: str, host: str, bundle: Callable[[], bytes]) -> Iterator[dict[str, Any]]:
    """Execute a job in a process of its own and yield its messages; closing the iterator ends the process.

    Args:
        job: text of a `HostJob`.
        host: name of this host.
        bundle: returns the snapshot's bundle.
    """
    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen(
            [sys.executable, "-m", "codeflash_parallel.hosts.cluster.host_run", host, repr(time.monotonic())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            start_new_session=True,
        )
        assert child.stdin is not None
        assert child.stdout is not None
        is_over = False
        try:
            with suppress(BrokenPipeError):
                child.stdin.write(job.encode() + b"\n")
                child.stdin.flush()
            for line in child.stdout:
                if not line.endswith(b"\n"):
                    break  # it died while it wrote
                message = json.loads(line)
                if message["t"] == "bundle":
                    data = bundle()
                    with suppress(BrokenPipeError):
                        child.stdin.write(b"%d\n" % len(data) + data)
                        child.stdin.flush()
                    continue
                is_over = message["t"] in {"ended", "fault"}
                yield message
            if not is_over:
                status = child.wait()
                said.seek(max(0, said.seek(0, os.SEEK_END) - _SAID_CHARS))
                words = said.read().decode(errors="replace").strip()
                yield {"t": "lost", "host": host, "why": f"its process ended with status {status}. {words}"}
        finally:
            _end(child)


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a process: it is asked to, and killed if it does not."""
    with suppress(OSError):
        child.stdin.close()  # type: ignore[union-attr]  # it has one
    try:
        child.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    child.stdout.close()  # type: ignore[union-attr]  # it has one
