"""The command line: one sub-command a call, of which only the module that it needs is imported."""

from __future__ import annotations

import difflib
import importlib
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TextIO

from codeflash_parallel.cli.exits import ExitCode, reporting_errors
from codeflash_parallel.cli.output import Output, say
from codeflash_parallel.model.errors import EnvironmentFault, UsageError

#: Name of a command → what it does. Each is a module of this package with `add_arguments` and `run`.
COMMANDS = MappingProxyType(
    {
        "run": "Check, race and profile candidates; say which is the fastest that is still correct.",
        "check": "Check candidates against the baseline; no race.",
        "resume": "Go on with a run that was killed or interrupted; what is finished is not done again.",
        "apply": "Write a candidate of an earlier run into your tree.",
        "show": "Show an earlier run, or one of its candidates in full.",
        "replay": "Judge what an earlier run measured once more, by its own or by other rules.",
        "list": "List the earlier runs of this repository.",
        "clean": "Remove what earlier runs left in the cache.",
        "selftest": "Judge known attacks and honest candidates on this machine; say what is caught.",
        "doctor": "Say whether this machine and project are fit, and where every setting comes from.",
    }
)

_PROGRAM = "codeflash-parallel"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    _give_missing_streams()
    _make_streams_safe()
    output = Output.found_in(arguments)
    with reporting_errors(output, arguments) as ending:
        try:
            ending.code = _dispatch(arguments, output)
        except SystemExit as leaving:  # a parser's, after its help
            ending.code = leaving.code if isinstance(leaving.code, int) else ExitCode.OK
        output.flush()  # a closed pipe or a full disk is noticed here and not when the interpreter exits
    return int(ending.code)


def _dispatch(arguments: Sequence[str], output: Output) -> int:
    if sys.platform != "linux":
        raise EnvironmentFault("NOT_LINUX", f"{_PROGRAM} runs on Linux only, not on {sys.platform}.")
    match arguments:
        case []:
            sys.stderr.write(_help())
            return ExitCode.USAGE
        case ["-h" | "--help", *_]:
            say(_help())
            return ExitCode.OK
        case ["--version", *_]:
            say(f"{_PROGRAM} {_version()}\n")
            return ExitCode.OK
        case [name, *rest]:
            return _run_command(name, rest, output)
        case _:  # pragma: no cover - the patterns above are complete, the type checker cannot see it
            raise AssertionError(arguments)


def _run_command(name: str, arguments: Sequence[str], output: Output) -> int:
    if name not in COMMANDS:
        close = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"Did you mean {close[0]!r}?" if close else f"The commands are {', '.join(COMMANDS)}."
        raise UsageError("BAD_ARGUMENTS", f"{_PROGRAM}: unknown command {name!r}.", hint)
    from codeflash_parallel.cli.options import make_parser

    command = importlib.import_module(f"codeflash_parallel.cli.{name}")
    parser = make_parser(name, COMMANDS[name])
    command.add_arguments(parser)
    code: int = command.run(parser.parse_args(arguments), output)
    return code


def _help() -> str:
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:<{width}}  {what}" for name, what in COMMANDS.items())
    return (
        f"usage: {_PROGRAM} COMMAND [OPTIONS]\n\n"
        "N candidate patches of one repository go in, the fastest one that is still correct comes out.\n\n"
        f"commands:\n{commands}\n\n"
        "options:\n  -h, --help  Show this, or with a command its options.\n"
        "  --version   Show the version.\n"
    )


def _version() -> str:
    from codeflash_parallel import __version__

    return __version__


def _give_missing_streams() -> None:
    """Let what is said to a closed stream go nowhere, and no file of ours get a closed stream's number."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free: this one
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()


def _nowhere() -> TextIO:
    return Path(os.devnull).open("w", encoding="utf-8")


def _make_streams_safe() -> None:
    """Let no character that a terminal cannot show end the program."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
