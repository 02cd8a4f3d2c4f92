"""The command line: one sub-command a call, of which only the module that it needs is imported."""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from codeflash_parallel.cli.exit_codes import ExitCode, reporting_errors
from codeflash_parallel.cli.output import Output, say
from codeflash_parallel.result.errors import EnvironmentFault, UsageError

if TYPE_CHECKING:
    from codeflash_parallel.cli.options import Command

#: Name of a command → what it does.
COMMANDS = MappingProxyType(
    {
        "run": "Check, race and profile candidates; say which is the fastest that is still correct.",
        "check": "Check candidates against the baseline; no race.",
        "resume": "Continue a run that was killed or interrupted; finished steps are not repeated.",
        "apply": "Write a candidate of an earlier run into your tree.",
        "show": "Show an earlier run, or one of its candidates in full.",
        "report": "Write an earlier run as a page for a browser, one file without scripts.",
        "list": "List the earlier runs of this repository.",
        "clean": "Remove what earlier runs left in the cache.",
        "serve": "Take jobs from the evaluation queue and evaluate them, until a signal ends it.",
        "queue": "Hand in candidates to the evaluation queue that several agents share, and look after them.",
        "score": "Say how fit a program of an evolution loop is: the lower bound of its speedup, or 0.",
        "codeflash": "Run the installed codeflash; its candidates are raced here instead of one by one.",
        "gate": "Say whether a change made benchmarks slower: base against head, in turn on one core.",
        "doctor": "Say whether this machine and project are fit, and where every setting comes from.",
        "mcp": "Serve these commands as tools of the Model Context Protocol, on standard input and output.",
    }
)

#: The same for `queue`.
QUEUE_COMMANDS = MappingProxyType(
    {
        "queue submit": "Hand in candidates; say at once which job that is, its position and why it waits.",
        "queue wait": "Wait for jobs, for as long as is said; can be asked again and again.",
        "queue result": "Show what became of a job as `run` shows it.",
        "queue status": "Show a job, or how the whole queue is.",
        "queue list": "List jobs: those that wait in their order, then the others.",
        "queue cancel": "Cancel jobs: one that waits never starts, one that runs is ended.",
        "queue pause": "Let no job start until `queue unpause`; those that run go on.",
        "queue unpause": "Let jobs start again.",
        "queue retry": "Send dead jobs back to the queue.",
        "queue dead": "List the jobs whose attempts are used up, and what they printed last.",
        "queue report": "Write the queue as a page for a browser: who waits and why, by submitter.",
        "queue metrics": "Write the queue's figures as Prometheus text.",
    }
)

#: Every command that has options of its own.
LEAVES = MappingProxyType({n: w for n, w in COMMANDS.items() if n != "queue"} | QUEUE_COMMANDS)

#: Module → the commands in its `COMMANDS`.
_MODULES = MappingProxyType(
    {
        "run": ("run", "check", "resume"),
        "stored_runs": ("apply", "show", "report", "list", "clean"),
        "serve": ("serve",),
        "hosts.score": ("score",),
        "hosts.codeflash": ("codeflash",),
        "gate": ("gate",),
        "doctor": ("doctor",),
        "mcp_server.command": ("mcp",),
        "queue.submit": ("queue submit",),
        "queue.views": (
            *("queue status", "queue list", "queue report"),
            *("queue dead", "queue metrics"),
        ),
        "queue.control": (
            *("queue wait", "queue result"),
            *("queue cancel", "queue pause", "queue unpause", "queue retry"),
        ),
    }
)

_PROGRAM = "codeflash-parallel"


#: Commands that the background process of `--keep-warm` can run.
_KEPT_WARM = frozenset({"run", "check"})


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    _give_missing_streams()
    return perform(list(sys.argv[1:] if argv is None else argv), _dispatch_or_hand_over)


def perform(arguments: Sequence[str], command: Callable[[Sequence[str], Output], int]) -> int:
    """Run a command line and return its exit code; what goes wrong is reported.

    Args:
        arguments: of the command line, without the program.
        command: does it, `dispatch`.
    """
    _make_streams_safe()
    output = _output_for(arguments)
    with reporting_errors(output, arguments) as ending:
        ending.code = command(arguments, output)
    return int(ending.code)


def _dispatch_or_hand_over(arguments: Sequence[str], output: Output) -> int:
    if arguments and arguments[0] in _KEPT_WARM and sys.platform == "linux":
        from codeflash_parallel.cli.warm_client import run_warm

        if (code := run_warm(arguments)) is not None:
            return code
    return dispatch(arguments, output)


def _output_for(arguments: Sequence[str]) -> Output:
    """Return the place of the result: `queue result` gives a run, the others of the queue an answer."""
    match arguments:
        case ["queue", name, *_] if name != "result":
            from codeflash_parallel.cli.queue.command_base import QueueOutput

            return QueueOutput.found_in(arguments)
        case _:
            return Output.found_in(arguments)


def dispatch(arguments: Sequence[str], output: Output) -> int:
    """Do what a command line says, in this process, and return its exit code."""
    code = _dispatch(arguments, output)
    say("")  # a closed pipe or a full disk is noticed here and not when the interpreter exits
    return code


def _dispatch(arguments: Sequence[str], output: Output) -> int:
    if sys.platform != "linux":
        raise EnvironmentFault("NOT_LINUX", f"{_PROGRAM} runs on Linux only, not on {sys.platform}.")
    group = "queue" if arguments[:1] == ["queue"] else ""
    rest = arguments[1:] if group else arguments
    help_text = _queue_help if group else _help
    if not rest:
        sys.stderr.write(help_text())
        return ExitCode.USAGE
    if rest[0] in {"-h", "--help"}:
        say(help_text())
        return ExitCode.OK
    if rest[0] == "--version" and not group:
        from codeflash_parallel import __version__

        say(f"{_PROGRAM} {__version__}\n")
        return ExitCode.OK
    return _run_command(f"{group} {rest[0]}".strip(), rest[1:], output)


def _run_command(name: str, arguments: Sequence[str], output: Output) -> int:
    if name not in LEAVES:
        raise _unknown(name)
    from codeflash_parallel.cli.options import make_parser
    from codeflash_parallel.report.color import COLOR, ColorMode

    command = find_command(name)
    parser = make_parser(name, LEAVES[name])
    command.add_arguments(parser)
    args = parser.parse_args(arguments)
    COLOR.set(ColorMode(args.color))
    return command.run(args, output)


def find_command(name: str) -> Command:
    """Return a command; only its module is loaded."""
    place = next(place for place, names in _MODULES.items() if name in names)
    command: Command = importlib.import_module(f"codeflash_parallel.cli.{place}").COMMANDS[name]
    return command


def _unknown(name: str) -> UsageError:
    import difflib

    known = QUEUE_COMMANDS if name.startswith("queue ") else COMMANDS
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"Did you mean {close[0]!r}?" if close else f"The commands are {', '.join(known)}."
    return UsageError("BAD_ARGUMENTS", f"{_PROGRAM}: unknown command {name!r}.", hint)


def _help() -> str:
    return (
        f"usage: {_PROGRAM} COMMAND [OPTIONS]\n\n"
        "N candidate patches of one repository go in, the fastest one that is still correct comes out.\n\n"
        f"commands:\n{_listed(COMMANDS)}\n\n"
        "options:\n  -h, --help  Show this, or with a command its options.\n"
        "  --version   Show the version.\n"
    )


def _queue_help() -> str:
    return (
        f"usage: {_PROGRAM} queue COMMAND [OPTIONS]\n\n{COMMANDS['queue']}\n"
        f"`{_PROGRAM} serve` takes the jobs.\n\n"
        f"commands:\n{_listed(QUEUE_COMMANDS)}\n\n"
        "options:\n  -h, --help  Show this, or with a command its options.\n"
    )


def _listed(commands: Mapping[str, str]) -> str:
    width = max(map(len, commands))
    return "\n".join(f"  {name:<{width}}  {what}" for name, what in commands.items())


def _give_missing_streams() -> None:
    """Let what is said to a closed stream go nowhere, and no file of ours get a closed stream's number."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free: this one
    if sys.stdout is None or sys.stderr is None:
        nowhere = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - open to the end of the process
        sys.stdout, sys.stderr = sys.stdout or nowhere, sys.stderr or nowhere


def _make_streams_safe() -> None:
    """Let no character that a terminal cannot show end the program."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
