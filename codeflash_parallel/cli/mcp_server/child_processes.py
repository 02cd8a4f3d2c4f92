"""Child processes of the server: the command line, apart from the server's own streams and signals."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO, NamedTuple

import anyio
from anyio.abc import Process

from codeflash_parallel.cli.mcp_server.answers import error_of_stderr
from codeflash_parallel.report.brief import MOST_BYTES, cut
from codeflash_parallel.result.errors import EnvironmentFault, UsageError

#: Seconds from SIGINT to SIGTERM, from there to SIGKILL, and to the end. The SDK's client sends SIGTERM to
#: the server 2 s after it has closed standard input, and SIGKILL 2 s later: all has to be over by then.
_GRACE_S = (1.5, 1.0, 0.5)
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
#: Bytes at the end of standard error in which a command's error stands.
_TAIL_BYTES = 16_000


class ChildStreams(NamedTuple):
    """Standard streams of a child process: files, or the numbers of `subprocess`."""

    stdin: int | IO[bytes]
    stdout: int | IO[bytes]
    stderr: int | IO[bytes]


class ChildProcesses:
    """Start and end child processes. Invariant: `_live` holds those that may still run.

    Args:
        cache_dir: value of `--cache-dir` for each of them; empty: not given.
    """

    def __init__(self, cache_dir: str) -> None:
        self.are_ending = False
        self._common = [f"--cache-dir={cache_dir}"] if cache_dir else []
        self._live: set[Process] = set()

    @asynccontextmanager
    async def running(
        self, arguments: Sequence[str], folder: Path, streams: ChildStreams
    ) -> AsyncIterator[Process]:
        """Start the command line in a session of its own; kill it if the block ends before it.

        Args:
            arguments: the command and its options.
            folder: the project, in which it runs.
            streams: none of them is the server's.

        Raises:
            UsageError: `NO_PROJECT` or `BAD_ARGUMENTS`: it cannot be started with these.
            EnvironmentFault: `SERVER_ENDS`.
        """
        if self.are_ending:
            raise EnvironmentFault("SERVER_ENDS", "The server is about to end.")
        _require_folder(folder)
        name, *rest = arguments
        # Nothing of the project is imported in place of ours: the folder is not on the path.
        command = [sys.executable, "-P", "-m", "codeflash_parallel", name, *self._common, *rest]
        try:
            process = await anyio.open_process(
                command, **streams._asdict(), cwd=folder, start_new_session=True
            )
        except (OSError, ValueError) as error:
            raise UsageError("BAD_ARGUMENTS", f"The command cannot be started: {error}.") from error
        self._live.add(process)
        try:
            async with process:
                yield process
        finally:
            self._live.discard(process)

    async def text_of(self, arguments: Sequence[str], folder: Path) -> str:
        """Run a command and return what it prints, cut.

        Args:
            arguments: the command and its options.
            folder: the project.

        Raises:
            UsageError: it cannot be started, or `COMMAND_FAILED`: it has failed and printed only an error.
        """
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            streams = ChildStreams(stdin=subprocess.DEVNULL, stdout=out, stderr=err)
            async with self.running(arguments, folder, streams) as process:
                exit_code = await process.wait()
            out.seek(0)
            text = out.read(MOST_BYTES * 2).decode("utf-8", "replace")
            if exit_code and not text:
                raise UsageError("COMMAND_FAILED", error_of_stderr(tail_of(err), exit_code))
        return cut(text, f"codeflash-parallel {shlex.join(arguments)}")

    async def end(self) -> None:
        """End all of them: SIGINT, then SIGTERM, then SIGKILL; return when none is left."""
        self.are_ending = True
        for number, grace_s in zip(_SIGNALS, _GRACE_S, strict=True):
            for process in self._live:
                with suppress(ProcessLookupError):
                    process.send_signal(number)
            with anyio.move_on_after(grace_s):
                for process in list(self._live):
                    await process.wait()
                return


def tail_of(file: IO[bytes]) -> str:
    """Return the end of a file's text."""
    size = file.seek(0, 2)
    file.seek(max(0, size - _TAIL_BYTES))
    return file.read().decode("utf-8", "replace")


def _require_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise UsageError("NO_PROJECT", f"The project {folder} is no folder.")
