"""`selftest`: known attacks and honest candidates, judged on this machine; what was caught, and how."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from codeflash_parallel.cli.exits import ExitCode
from codeflash_parallel.cli.output import Format, Output
from codeflash_parallel.model.errors import UsageError

if TYPE_CHECKING:
    from codeflash_parallel.selftest.entries import Entry
    from codeflash_parallel.selftest.judging import Outcome


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `selftest`."""
    from codeflash_parallel.cli.options import add_output_or_json, add_settings
    from codeflash_parallel.process.machine import read_machine

    which = parser.add_argument_group("which candidates")
    which.add_argument(
        "--only", metavar="NAME", action="append", default=[], help="A family or an entry. May be repeated."
    )
    half = which.add_mutually_exclusive_group()
    half.add_argument("--honest-only", action="store_true", help="Honest candidates only.")
    half.add_argument("--attacks-only", action="store_true", help="Attacks only.")
    which.add_argument("--all", action="store_true", help="Those that take long, too.")
    how = parser.add_argument_group("how")
    add_settings(how, [name for name in ("python", "isolation", "new_process") if name in _settings()])
    how.add_argument(
        "--jobs",
        metavar="N",
        type=int,
        default=read_machine().cores,
        help="Processes at once. Default: the cores.",
    )
    how.add_argument(
        "--no-naive",
        action="store_true",
        help="Do not show attacks to naive judges first; then all of them count.",
    )
    how.add_argument("--list", action="store_true", help="Say what there is, and run nothing.")
    add_output_or_json(parser)
    parser.add_argument("--markdown", action="store_true", help="Write the table as Markdown.")


def _settings() -> tuple[str, ...]:
    from codeflash_parallel.model.settings import SETTING_NAMES

    return SETTING_NAMES


def run(args: argparse.Namespace, output: Output) -> int:
    """Run the corpus; return 1 if a wrong one passed, a cheat was credited or an honest one rejected."""
    from codeflash_parallel.cli.interrupts import handling_signals
    from codeflash_parallel.selftest.judging import has_failed
    from codeflash_parallel.selftest.table import listed

    output.form = Format.JSON if args.json else output.form
    _must_be_sound(args)
    entries = chosen(args)
    if args.list:
        output.write("".join(f"{line}\n" for line in listed(entries)))
        return ExitCode.OK
    with handling_signals(output):
        outcomes = _outcomes(entries, args)
    _tell(outcomes, args, output)
    return ExitCode.NO_WINNER if has_failed(outcomes) else ExitCode.OK


def _must_be_sound(args: argparse.Namespace) -> None:
    from codeflash_parallel.model.settings import Settings

    if args.jobs < 1:
        raise UsageError("BAD_ARGUMENTS", f"--jobs must be at least 1, not {args.jobs}.")
    # It says what is wrong with the value of a setting, once for all candidates instead of for each.
    Settings(isolation=getattr(args, "isolation", "auto"))


def _tell(outcomes: Sequence[Outcome], args: argparse.Namespace, output: Output) -> None:
    from codeflash_parallel.selftest.table import as_values, markdown

    if args.markdown:
        output.write(markdown(outcomes))
    elif output.form == Format.TEXT:
        output.write_report(lambda stream: _print(outcomes, stream))
    else:
        output.write_values(as_values(outcomes))


def chosen(args: argparse.Namespace) -> tuple[Entry, ...]:
    """Return the entries that are asked for.

    Raises:
        UsageError: `BAD_ARGUMENTS`: there is no family or entry of that name, or none is left.
    """
    from codeflash_parallel.selftest.entries import FAMILIES, corpus

    known = {*FAMILIES, *(entry.name for entry in corpus())}
    for name in args.only:
        if name not in known:
            raise UsageError(
                "BAD_ARGUMENTS", f"There is no family or entry {name!r}.", "See selftest --list."
            )
    found = tuple(entry for entry in corpus() if _is_asked_for(entry, args))
    if not found:
        raise UsageError("BAD_ARGUMENTS", "No entry is left.", "See selftest --list.")
    return found


def _is_asked_for(entry: Entry, args: argparse.Namespace) -> bool:
    if args.only and not {entry.name, entry.family}.intersection(args.only):
        return False
    if (args.honest_only and entry.is_attack) or (args.attacks_only and not entry.is_attack):
        return False
    return entry.quick or args.all or entry.name in args.only


def _outcomes(entries: Sequence[Entry], args: argparse.Namespace) -> tuple[Outcome, ...]:
    from codeflash_parallel.engine.interpreter import choose_interpreter
    from codeflash_parallel.selftest.campaign import Wish, run_selftest

    project = Path(args.project).absolute()
    wish = Wish(
        entries=entries,
        interpreter=choose_interpreter(getattr(args, "python", ""), project, project),
        options=tuple(_passed_on(args)),
        jobs=args.jobs,
        naive=not args.no_naive,
        folder=getattr(args, "cache_dir", "") or None,
    )
    return run_selftest(wish, _say, _note)


def _passed_on(args: argparse.Namespace) -> Iterator[str]:
    if getattr(args, "isolation", ""):
        yield from ("--isolation", args.isolation)
    if getattr(args, "new_process", False):
        yield "--new-process"


def _say(text: str) -> None:
    sys.stderr.write(f"selftest: {text}\n")
    sys.stderr.flush()


def _note(outcome: Outcome) -> None:
    """Tell of a finding at once: the table comes at the end."""
    from codeflash_parallel.selftest.judging import BAD

    if outcome.became in BAD:
        _say(f"{outcome.name}: {outcome.became} {outcome.code}")


def _print(outcomes: Sequence[Outcome], stream: TextIO) -> None:
    from codeflash_parallel.report.console import make_console, print_rows
    from codeflash_parallel.report.text import printable
    from codeflash_parallel.selftest.judging import BAD
    from codeflash_parallel.selftest.table import COLUMNS, rows, summary

    console = make_console(stream)
    print_rows(COLUMNS, rows(outcomes), console)
    console.print()
    for one in outcomes:
        if one.became in BAD:
            console.print(printable(f"{one.name}: {one.reason}"), soft_wrap=True)
    for sentence in summary(outcomes):
        console.print(sentence, soft_wrap=True)
