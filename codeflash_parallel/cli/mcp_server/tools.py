"""The five tools of the server, and the server itself. The only module that imports the package `mcp`."""

from __future__ import annotations

import inspect
import os
import signal
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, InputRequiredResult, ToolAnnotations
from pydantic import Field, ValidationError

from codeflash_parallel import __version__
from codeflash_parallel.cli.mcp_server.answers import error_line
from codeflash_parallel.cli.mcp_server.child_processes import ChildProcesses
from codeflash_parallel.cli.mcp_server.requests import SubmitMode, manifest_of, run_arguments
from codeflash_parallel.cli.mcp_server.submitted_runs import RunProgress, SubmittedRuns, wait_for_end
from codeflash_parallel.result.errors import CodeflashParallelError, UsageError

#: Seconds that one call waits at most: clients give up after 60 s.
_LONGEST_WAIT_S = 45.0

#: A process that a signal ends has this and the signal's number as its exit code, as shells have it.
_OF_SIGNALS = 128

#: Name of a tool → what a client may assume of it before it asks the user.
_HINTS = {
    "submit_candidates": ToolAnnotations(read_only_hint=False, destructive_hint=False),
    "wait_for": ToolAnnotations(read_only_hint=True),
    "explain": ToolAnnotations(read_only_hint=True),
    "apply": ToolAnnotations(read_only_hint=False, destructive_hint=True),
    "doctor": ToolAnnotations(read_only_hint=True),
}


class _Tools:
    """The tools. Their docstrings are what clients show to a model.

    Args:
        folder: relative projects start from it.
        children: runs commands.
        runs: those that were submitted.
    """

    def __init__(self, folder: Path, children: ChildProcesses, runs: SubmittedRuns) -> None:
        self._folder = folder
        self._children = children
        self._runs = runs

    async def submit_candidates(
        self,
        project: str,
        candidates: list[dict[str, Any]] | None = None,
        sources: list[str] | None = None,
        functions: list[str] | None = None,
        tests: list[str] | None = None,
        options: dict[str, Any] | None = None,
        mode: SubmitMode = SubmitMode.RUN,
    ) -> str:
        """Evaluate candidate changes of a Python project: say which are correct, and which is the fastest.

        Answers at once with a handle; ask for the result with wait_for(handle). No file of the project is
        touched.

        Args:
            project: folder of the project, in a git repository.
            candidates: each is {"id": name} with exactly one of "patch" (a unified diff), "replacement"
                (Python source of the function, with "function" if there are several targets), "answer"
                (Markdown with blocks that begin with ```python:path) and "edits" ({path: new text of the
                whole file, or null to remove it}).
            sources: more candidates: "worktrees" or "worktrees=PATTERN" (all linked worktrees of the
                repository, uncommitted work included), the commits of a range "main..experiments", branches
                by a pattern "opt/*", a folder or file (.patch, .diff, .py, .md, .jsonl).
            functions: targets, "path.py::Class.method".
            tests: test files, folders or ids. Default: those of the project's configuration.
            options: settings by name, e.g. {"base": "main", "time_budget": 60, "parallel_candidates": 2}.
            mode: "run" checks and races; "check" has no race.
        """
        manifest = manifest_of(candidates or [])
        named = {"functions": functions, "tests": tests}
        settings = {**(options or {}), **{name: value for name, value in named.items() if value}}
        arguments = run_arguments(mode, sources or [], settings, reads_manifest=bool(candidates))
        run = await self._runs.submit(arguments, self._folder_of(project), manifest)
        if run.error:
            raise UsageError("RUN_FAILED", run.error)
        return (
            f"handle: {run.handle}\nrun: {run.run_id or 'not known yet'}\n"
            f'Ask for the result with wait_for("{run.handle}"). The run ends with this server; '
            f"`codeflash-parallel resume {run.run_id or 'RUN'}` continues it then."
        )

    async def wait_for(
        self, handle: str, ctx: Context[Any, Any], seconds: Annotated[float, Field(ge=0)] = _LONGEST_WAIT_S
    ) -> str:
        """Wait for a submitted run; answer its verdict, or its state when it is still running.

        Args:
            handle: of submit_candidates.
            seconds: to wait at most; 45 at most, ask again then.
        """

        async def report(now: RunProgress) -> None:
            await ctx.report_progress(now.judged, now.total or None, now.state)

        run = self._runs.find(handle)
        await wait_for_end(run, min(seconds, _LONGEST_WAIT_S), report)
        if not run.has_ended.is_set():
            judged, total, state = run.progress
            return (
                f"still running: {state}; {judged} of {total} candidates judged; run {run.run_id}; "
                f'ask again: wait_for("{handle}")'
            )
        if run.error:
            raise UsageError("RUN_FAILED", run.error)
        return run.answer

    async def explain(self, project: str, run: str, candidate: str = "") -> str:
        """Show an earlier run, or one candidate: first differing call, failing tests, measurements, diff.

        Args:
            project: folder of the project.
            run: id of the run, the beginning of it, or "last".
            candidate: id of the candidate. Default: all of them.
        """
        return await self._children.text_of(_on_run("show", run, candidate), self._folder_of(project))

    async def apply(self, project: str, run: str, candidate: str = "") -> str:
        """Write the winner of a run, or another of its candidates, into the project's files.

        Args:
            project: folder of the project.
            run: id of the run, the beginning of it, or "last".
            candidate: id of the candidate. Default: the winner.
        """
        with anyio.CancelScope(shield=True):  # a client that gives up leaves no half of a change
            text = await self._children.text_of(_on_run("apply", run, candidate), self._folder_of(project))
        return text  # noqa: RET504 - for mypy, a scope may end without a value

    async def doctor(self, project: str) -> str:
        """Say whether machine and project are fit for runs, and the source of every setting.

        Args:
            project: folder of the project.
        """
        return await self._children.text_of(["doctor"], self._folder_of(project))

    def _folder_of(self, project: str) -> Path:
        return self._folder / Path(project).expanduser()


def _on_run(command: str, run: str, candidate: str) -> list[str]:
    if run.startswith("-"):
        raise UsageError("NO_SUCH_RUN", f"{run!r} is no run.", 'Give its id, or "last".')
    return [command, run, *([f"--candidate={candidate}"] if candidate else [])]


class _Server(MCPServer[Any]):
    """The SDK's server; its errors are one line each."""

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool.

        Raises:
            ToolError: unknown tool, bad arguments, or the tool has failed.
        """
        await self._refuse_unknown(name, arguments)
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if told := _told(error):
                raise ToolError(error_line(told)) from None
            raise

    async def _refuse_unknown(self, name: str, arguments: Mapping[str, Any]) -> None:
        """Refuse arguments that the tool has not, which the SDK ignores."""
        known = [
            list(tool.input_schema["properties"]) for tool in await self.list_tools() if tool.name == name
        ]
        if known and (unknown := sorted(arguments.keys() - set(known[0]))):
            told = f"{name} has no argument {', '.join(unknown)}. It has: {', '.join(known[0])}."
            raise ToolError(error_line(told))


def _told(error: ToolError) -> str:
    """Return the words of an expected error; empty: a defect, whose traceback goes to standard error."""
    match error.__cause__:
        case CodeflashParallelError() as ours:
            return str(ours)
        case ValidationError() as bad:
            faults = (f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in bad.errors())
            return f"Bad arguments: {'; '.join(faults)}."
        case _:
            return ""


def _make_server(tools: _Tools) -> _Server:
    server = _Server("codeflash-parallel", version=__version__, log_level="WARNING")
    for name, hints in _HINTS.items():
        tool = getattr(tools, name)
        # The text alone: a structured copy of it would double every answer.
        server.add_tool(tool, description=inspect.getdoc(tool), annotations=hints, structured_output=False)
    return server


async def serve(folder: Path, cache_dir: str) -> None:
    """Serve one client on standard input and output until it closes them; end all child processes then.

    A signal ends the process from here: the thread that reads standard input cannot be interrupted.

    Args:
        folder: relative projects start from it.
        cache_dir: of all runs; empty: the settings'.
    """
    children = ChildProcesses(cache_dir)
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_leave_on_signal, signals, children)
            server = _make_server(_Tools(folder, children, SubmittedRuns(children, tasks)))
            try:
                await server.run_stdio_async()
            finally:
                with anyio.CancelScope(shield=True):
                    await children.end()
                tasks.cancel_scope.cancel()


async def _leave_on_signal(signals: AsyncIterator[signal.Signals], children: ChildProcesses) -> None:
    async for number in signals:
        if not children.are_ending:  # else the client has closed standard input, and its patience is over
            await children.end()
            os._exit(_OF_SIGNALS + number)
