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
from itertools import chain
from typing import Any

#: Ray kills the children of a worker that ends. A grandchild ends itself then, and puts everything in order.
_AS_GRANDCHILD = '"$0" -m codeflash_parallel.hosts.cluster.host_run "$1"; exit $?'
#: Statuses of a shell whose child was killed by a signal are the signal's number and this.
_BY_SIGNAL = 128
#: A process that was told to end has so long before it is killed; its children then end with it.
_GRACE_S = 1.5
#: So many seconds after its last job it still takes another one; it ends itself soon after that.
_TAKES_S = 15.0
#: How much of what a process that died said last is told.
_SAID_CHARS = 1500


class HostProcess:
    """A process that executes jobs of one run, one after the other. Started with the first of them."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._child = subprocess.Popen(
            ["/bin/sh", "-c", _AS_GRANDCHILD, sys.executable, host],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            start_new_session=True,
        )
        self._used_s = time.monotonic()

    @property
    def is_alive(self) -> bool:
        """Whether it can take a job."""
        return self._child.poll() is None and time.monotonic() - self._used_s < _TAKES_S

    def messages(self, job: str, bundle: Callable[[], bytes]) -> Iterator[dict[str, Any]]:
        """Execute a job and yield its messages; a process that dies gives `lost` as the last one.

        Args:
            job: text of a `HostJob`.
            bundle: returns the snapshot's bundle.
        """
        out = self._child.stdout
        assert out is not None
        self._write(b'{"sent_s":%s,"job":%s}\n' % (repr(time.monotonic()).encode(), job.encode()))
        for line in out:
            if not line.endswith(b"\n"):
                break  # it died while it wrote
            message = json.loads(line)
            if message["t"] == "bundle":
                data = bundle()
                self._write(b"%d\n" % len(data) + data)
                continue
            self._used_s = time.monotonic()
            yield message
            if message["t"] in {"ended", "fault"}:
                return
        yield {"t": "lost", "host": self._host, "why": self._last_words()}

    def _write(self, data: bytes) -> None:
        with suppress(BrokenPipeError):  # it is dead: reading says so
            self._child.stdin.write(data)  # type: ignore[union-attr]  # it has one
            self._child.stdin.flush()  # type: ignore[union-attr]

    def _last_words(self) -> str:
        status = self._child.wait()
        status = _BY_SIGNAL - status if status > _BY_SIGNAL else status
        self._said.seek(max(0, self._said.seek(0, os.SEEK_END) - _SAID_CHARS))
        words = self._said.read().decode(errors="replace").strip()
        return f"its process ended with status {status}. {words}".strip()

    def close(self) -> None:
        """End the process, with everything below it: it is asked to, and killed if it does not."""
        child = self._child
        with suppress(OSError):
            child.stdin.close()  # type: ignore[union-attr]  # it has one
        try:
            child.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        child.stdout.close()  # type: ignore[union-attr]  # it has one
        self._said.close()


#: The process of the last job of this worker, for the next one; engines run one job at a time in a worker.
_kept: list[HostProcess] = []


def messages_of(job: str, host: str, bundle: Callable[[], bytes]) -> Iterator[dict[str, Any]]:
    """Execute a job and yield its messages; closing the iterator before the last one ends the process.

    A process that has done its job is kept for the next job of this worker: its servers and slots stand.

    Args:
        job: text of a `HostJob`.
        host: name of this host.
        bundle: returns the snapshot's bundle.
    """
    kept = _kept.pop() if _kept else None
    process = kept or HostProcess(host)
    if not process.is_alive:
        process.close()
        process = HostProcess(host)
    is_over = False
    try:
        messages = process.messages(job, bundle)
        first = next(messages)
        if process is kept and first["t"] == "lost":  # it has died since its last job
            process.close()
            process = HostProcess(host)
            messages = process.messages(job, bundle)
            first = next(messages)
        for message in chain([first], messages):
            is_over = message["t"] == "ended"
            yield message
    finally:
        if is_over:
            _kept.append(process)
        else:
            process.close()


def end_kept() -> None:
    """End the process that is kept, if there is one."""
    while _kept:
        _kept.pop().close()
