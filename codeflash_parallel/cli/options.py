"""Options of the commands, made from the one table of settings."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple, NoReturn

from codeflash_parallel.candidates.submissions import CandidateSource
from codeflash_parallel.cli.output import Format, Output, say
from codeflash_parallel.config.settings import SETTINGS
from codeflash_parallel.config.settings_table import SWITCH, SettingColumns
from codeflash_parallel.report.color import ColorMode
from codeflash_parallel.result.errors import UsageError

#: Settings that every command understands.
SHARED = (SETTINGS["cache_dir"],)


def _formatter(prog: str) -> argparse.HelpFormatter:
    """Make the formatter that argparse would make: left to itself it loads `shutil` for every option."""
    columns = 80
    with suppress(OSError, ValueError):
        columns = int(os.environ.get("COLUMNS") or os.get_terminal_size(1).columns) or columns
    return argparse.HelpFormatter(prog, width=columns - 2)


class Command(NamedTuple):
    """A command: a function that adds its options, and one that does it and returns its exit code."""

    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace, Output], int]


class Parser(argparse.ArgumentParser):
    """A parser that raises instead of printing, and says which option may have been meant."""

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would print.

        Raises:
            UsageError: `BAD_ARGUMENTS`.
        """
        import difflib

        prefix = "unrecognized arguments: "
        flags = [flag for action in self._actions for flag in action.option_strings]
        unknown = message.removeprefix(prefix).split(" ")[0].partition("=")[0]
        close = difflib.get_close_matches(unknown, flags, n=1) if message.startswith(prefix) else []
        hint = f"Did you mean {close[0]}?" if close else f"See {self.prog} --help."
        raise UsageError("BAD_ARGUMENTS", f"{self.prog}: {message}.", hint)

    def print_help(self, _file: object = None) -> None:
        """Say what the options are, and say so where they cannot be written.

        Raises:
            EnvironmentFault: `OUTPUT_UNWRITABLE`.
        """
        say(self.format_help())


def opposite_of(flag: str) -> str:
    """Return the option that says no where a switch says yes: `--no-` before it, or gone."""
    return f"--{flag[5:]}" if flag.startswith("--no-") else f"--no-{flag[2:]}"


def make_parser(name: str, description: str) -> Parser:
    """Return a parser with the options that every command has."""
    parser = Parser(
        prog=f"codeflash-parallel {name}",
        description=description,
        allow_abbrev=False,
        formatter_class=_formatter,
    )
    parser.add_argument(
        "--project", metavar="DIR", default=".", help="Folder of the project. Default: the current one."
    )
    add_settings(parser, SHARED)
    _add_output(parser)
    return parser


def add_settings(parser: argparse._ActionsContainer, rows: Iterable[SettingColumns]) -> None:
    """Add the options of some settings; one that is not given leaves no trace in the namespace."""
    for row in rows:
        _add_setting(parser, row)


def _add_setting(parser: argparse._ActionsContainer, row: SettingColumns) -> None:
    flags = list(filter(None, (row.flag, row.short)))
    has_default = isinstance(row.default, int | float | StrEnum) and row.kind != SWITCH
    text = (row.help + (f" Default: {row.default}." if has_default else "")).replace("%", "%%")
    common: dict[str, Any] = {"dest": row.name, "default": argparse.SUPPRESS, "help": text}
    if row.kind == SWITCH:
        no = {**common, "help": f"Undo {flags[0]}, or what a file or the environment says."}
        parser.add_argument(*flags, action="store_true", **common)
        parser.add_argument(opposite_of(flags[0]), action="store_false", **no)
        return
    nargs = "+" if row.takes_several else 1
    several: dict[str, Any] = {"action": "extend", "nargs": nargs} if row.kind.is_several else {}
    read = argument(row.kind.parse, row.kind.words)
    parser.add_argument(*flags, type=read, metavar=row.metavar, **several, **common)


def argument(parse: Callable[[str], Any], words: str) -> Callable[[str], Any]:
    """Return what makes a value of an argument of the command line.

    Args:
        parse: makes it of text; a `ValueError` says that it cannot.
        words: what it has to be.
    """

    def read(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"must be {words}, not {text!r}") from error

    return read


def add_candidates(parser: argparse.ArgumentParser) -> None:
    """Add the options that name candidates; their order is kept."""
    group = parser.add_argument_group("candidates")
    group.add_argument(
        "--candidates",
        dest="sources",
        action="append",
        type=CandidateSource,
        default=[],
        metavar="PATH",
        help="Folder or file: .patch, .diff, .py (the function), .md (a model's answer), .jsonl; - is stdin. "
        "Or of the repository: worktrees[=PATTERN], the commits of a range A..B, branches by a pattern "
        "such as 'opt/*'. May be repeated.",
    )
    group.add_argument(
        "--candidate",
        dest="sources",
        action="append",
        type=partial(CandidateSource, is_ref=True),
        default=[],
        metavar="REF",
        help="Git ref whose changes are a candidate. May be repeated.",
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    form = group.add_mutually_exclusive_group()
    form.add_argument(
        "--output-format",
        choices=[form.value for form in Format],
        help="Form of the result on standard output; brief: at most 4,000 bytes, for agents. Default: text.",
    )
    form.add_argument("--json", action="store_true", help="The same as --output-format json.")
    group.add_argument(
        "--output",
        metavar="PATH",
        default="",
        help="Write the result to a file instead; folders that it lacks are made.",
    )
    group.add_argument(
        "--color",
        choices=[mode.value for mode in ColorMode],
        default=ColorMode.AUTO.value,
        help="Colours in what is printed for people; auto: on a terminal, unless NO_COLOR is set. "
        "Default: auto.",
    )


def add_reports(parser: argparse.ArgumentParser) -> None:
    """Add the options of further reports, and of how much is said."""
    group = parser.add_argument_group("reports")
    group.add_argument(
        "--junit-xml", metavar="PATH", default="", help="Also write JUnit XML, a suite a candidate."
    )
    group.add_argument(
        "--markdown",
        metavar="PATH",
        default="",
        help="Also write a short summary in Markdown; beside NAME.md a plot of the speedups, NAME.svg.",
    )
    group.add_argument(
        "--html",
        metavar="PATH",
        default="",
        help="Also write a page for a browser, one file, as report does.",
    )
    add_timings(group)
    volume = group.add_mutually_exclusive_group()
    volume.add_argument(
        "-q", "--quiet", action="store_true", help="Print the verdict only, without progress."
    )
    volume.add_argument("-v", "--verbose", action="store_true", help="Say every failure and difference.")


def add_timings(parser: argparse._ActionsContainer) -> None:
    """Add the option that tells where the time went."""
    parser.add_argument(
        "--timings",
        action="store_true",
        help="Also say where the time of each candidate went; JSON always does.",
    )


#: What the providers answer, by the names of their options.
_REQUESTS: Mapping[str, str] = {"repairer": "repair", "refiner": "refinement"}


def add_providers(parser: argparse.ArgumentParser, names: Sequence[str]) -> None:
    """Add the options that name Python callables as providers: `repairer`, `refiner`."""
    group = parser.add_argument_group("providers")
    for name in names:
        group.add_argument(
            f"--{name}",
            metavar="MODULE:NAME",
            default="",
            help=f"Python callable that answers {_REQUESTS[name]} requests, in a process of its own.",
        )
