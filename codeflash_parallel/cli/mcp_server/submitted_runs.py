"""Runs that clients have submitted: a child process each; its state and a short text are kept."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import IO, NamedTuple

import anyio
from anyio.abc import ByteReceiveStream, Process, TaskGroup
from anyio.streams.buffered import BufferedByteReceiveStream

from codeflash_parallel.cli.mcp_server.answers import error_line, error_of_document, error_of_stderr
from codeflash_parallel.cli.mcp_server.child_processes import ChildProcesses, ChildStreams, tail_of
from codeflash_parallel.report.brief import brief, cut
from codeflash_parallel.result.errors import UsageError
from codeflash_parallel.result.result_document import Document
from codeflash_parallel.run.run_folder import stored_result

#: Bytes of one line of events: more than any document has.
_LONGEST_LINE = 1 << 30
#: Seconds between two looks at the state of a run that is waited for.
_LOOK_S = 0.5
#: Seconds until a run has a name, or has found that it cannot begin; on a busy machine it takes longer.
_BEGIN_S = 5.0


class RunProgress(NamedTuple):
    """State of a run: candidates that are judged, those that are known, and what is done now."""

    judged: int
    total: int
    state: str


class SubmittedRun:
    """A run of this server. Invariant: `answer` or `error` is set before `has_ended` is."""

    def __init__(self) -> None:
        self.handle = ""
        self.run_id = ""
        self.answer = ""
        self.error = ""
        self.has_begun = anyio.Event()
        self.has_ended = anyio.Event()
        self._phase, self._step = "start", ""
        self._known: set[str] = set()
        self._judged: set[str] = set()

    @property
    def progress(self) -> RunProgress:
        """Return its state."""
        state = error_line(f"{self._phase}: {self._step}".removesuffix(": "))
        return RunProgress(len(self._judged), len(self._known), state)

    def note(self, event: Document) -> None:
        """Take one event; the last one is the document, of which a short text is kept."""
        self.run_id = event["run_id"] or self.run_id
        match event["event"]:
            case "run_started":
                self.has_begun.set()
            case "phase_started":
                self._phase, self._step = event["phase"], ""
            case "step_changed":
                self._step = event["step"]
            case "run_waits":
                self._step = event["why"] and f"waits, {event['why']}"
            case "race_progress":
                self._step = f"{event['stage']}, round {event['rounds']} of at most {event['most_rounds']}"
            case "candidate_moved":
                self._known.add(event["candidate"])
            case "candidate_finished":
                self._known.add(event["candidate"])
                self._judged.add(event["candidate"])
            case "run_finished":
                self._keep(event)

    def end(self, otherwise: str) -> None:
        """Note that its process has ended.

        Args:
            otherwise: the error where it has left no document.
        """
        if not self.answer and not self.error:
            resume = f" Continue with: codeflash-parallel resume {self.run_id}" if self.run_id else ""
            self.error = error_line(otherwise + resume)
        self.has_ended.set()
        self.has_begun.set()

    def _keep(self, document: Document) -> None:
        self.error = error_of_document(document)
        if not self.error:
            text = f"run: {self.run_id}\n{brief(stored_result(document))}"
            self.answer = cut(text, f"codeflash-parallel show {self.run_id}")


class SubmittedRuns:
    """All runs of this server, by their handles.

    Args:
        children: starts their processes.
        tasks: follows them; it ends when the server does.
    """

    def __init__(self, children: ChildProcesses, tasks: TaskGroup) -> None:
        self._children = children
        self._tasks = tasks
        self._runs: dict[str, SubmittedRun] = {}

    def find(self, handle: str) -> SubmittedRun:
        """Return the run of a handle.

        Raises:
            UsageError: `NO_SUCH_HANDLE`.
        """
        if handle not in self._runs:
            hint = f"The handles are {', '.join(self._runs)}." if self._runs else "Nothing was submitted yet."
            raise UsageError("NO_SUCH_HANDLE", f"This server has no handle {handle!r}.", hint)
        return self._runs[handle]

    async def submit(self, arguments: Sequence[str], folder: Path, manifest: str) -> SubmittedRun:
        """Start a run; return it when it has begun, has failed, or needs longer than some seconds for that.

        Args:
            arguments: of the command line.
            folder: of the project.
            manifest: its standard input.

        Raises:
            UsageError: it cannot be started.
        """
        run, given = SubmittedRun(), tempfile.TemporaryFile()  # noqa: SIM115 - closed by its follower
        given.write(manifest.encode())
        given.seek(0)
        await self._tasks.start(self._follow, run, arguments, folder, given)
        run.handle = f"run-{len(self._runs) + 1}"
        self._runs[run.handle] = run
        with anyio.move_on_after(_BEGIN_S):
            await run.has_begun.wait()
        return run

    async def _follow(
        self,
        run: SubmittedRun,
        arguments: Sequence[str],
        folder: Path,
        given: IO[bytes],
        *,
        task_status: anyio.abc.TaskStatus[None],
    ) -> None:
        """Read the events of a run to its end."""
        with given, tempfile.TemporaryFile() as err:
            streams = ChildStreams(stdin=given, stdout=subprocess.PIPE, stderr=err)
            async with self._children.running(arguments, folder, streams) as process:
                task_status.started()
                exit_code = await _read_events(run, process)
            run.end(error_of_stderr(tail_of(err), exit_code))


async def _read_events(run: SubmittedRun, process: Process) -> int:
    """Take the events of a process, a line at a time; return its exit code."""
    assert process.stdout is not None
    async for line in _lines(process.stdout):
        try:
            run.note(json.loads(line))
        except (ValueError, LookupError, TypeError) as error:  # costs its run, not the server
            run.error = error_line(f"A line of the run cannot be read: {error!r}.")
    return await process.wait()


async def _lines(stream: ByteReceiveStream) -> AsyncIterator[bytes]:
    buffered = BufferedByteReceiveStream(stream)
    while True:
        try:
            yield await buffered.receive_until(b"\n", _LONGEST_LINE)
        except (anyio.IncompleteRead, anyio.EndOfStream):
            return


async def wait_for_end(
    run: SubmittedRun, seconds: float, report: Callable[[RunProgress], Awaitable[None]]
) -> None:
    """Wait until a run has ended, at most for some seconds.

    Args:
        run: it.
        seconds: at most.
        report: is called with every state that differs from the one before.
    """
    told = None
    with anyio.move_on_after(seconds):
        while not run.has_ended.is_set():
            if told != (told := run.progress):
                await report(told)
            with anyio.move_on_after(_LOOK_S):
                await run.has_ended.wait()
