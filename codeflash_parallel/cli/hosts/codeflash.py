"""`codeflash`: run the installed codeflash, with its evaluation of candidates replaced by ours."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from codeflash_parallel.cli import options
from codeflash_parallel.cli.exit_codes import BY_SIGNAL, Interrupts, handling_signals
from codeflash_parallel.cli.options import Command
from codeflash_parallel.cli.output import Output
from codeflash_parallel.config.settings import SETTINGS
from codeflash_parallel.config.settings_reader import must_be_there, read_settings
from codeflash_parallel.hosts.codeflash.known_interface import INSTALL, installed_version
from codeflash_parallel.hosts.codeflash.race_log import RaceLog
from codeflash_parallel.result.errors import UsageError
from codeflash_parallel.result.safe_text import one_line

#: Shells add it to the number of the signal that has ended a process.
_BY_SIGNAL = 128


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = f"{parser.prog} [options] -- ARGUMENTS"
    options.add_settings(parser, (SETTINGS["parallel_candidates"],))
    parser.add_argument(
        "arguments",
        nargs="+",
        metavar="ARGUMENTS",
        help="Those of codeflash, after --, as in -- --all --no-pr.",
    )
    parser.epilog = "All other settings are those of pyproject.toml, [tool.codeflash-parallel]."


def _run(args: argparse.Namespace, output: Output) -> int:
    """Run codeflash and return its exit code; then say what the races gave.

    Raises:
        UsageError: `CODEFLASH_MISSING`, `NO_PROJECT`, or a bad setting.
    """
    project = Path(args.project)
    must_be_there(project)
    if not installed_version():
        message = f"codeflash is not installed beside {sys.executable}."
        raise UsageError("CODEFLASH_MISSING", message, f"Install it with: {INSTALL}")
    read_settings(project, os.environ, vars(args))  # what is wrong in them is said before hours are spent
    output.must_be_writable()
    given = {name: getattr(args, name) for name in ("parallel_candidates", "cache_dir") if name in args}
    with handling_signals(output) as interrupts, tempfile.TemporaryDirectory() as folder:
        log = RaceLog(path=Path(folder, "races.jsonl"))
        words = [str(log.path), json.dumps(given), *args.arguments]
        status = _finished(words, project, interrupts, to_stderr=not output.form.is_text)
        document = {**log.document(), "exit_code": status}
        if output.form.is_text:
            output.write("".join(map(_line, document["functions"])))
        else:
            output.write_values(document)
    return status


def _finished(words: Sequence[str], project: Path, interrupts: Interrupts, *, to_stderr: bool) -> int:
    """Run codeflash in a process and return its exit code.

    Args:
        words: arguments of the process.
        to_stderr: standard output is for a document.
    """
    command = [sys.executable, "-P", "-m", "codeflash_parallel.hosts.codeflash", *words]
    with subprocess.Popen(command, cwd=project, stdout=2 if to_stderr else None) as process:

        def pass_on(name: str) -> None:
            if name == "SIGTERM" or not os.isatty(0):  # a terminal sends its signals to both
                process.send_signal(signal.Signals[name])

        interrupts.passed_to(pass_on)
        status = process.wait()
    if interrupts.received:
        return BY_SIGNAL[interrupts.received]
    return status if status >= 0 else _BY_SIGNAL - status


def _line(race: Any) -> str:
    show = f" See: codeflash-parallel show {race['run_id']}" if race["run_id"] else ""
    return one_line(f"{race['function']}: {race['summary']}{show}") + "\n"


COMMANDS = {"codeflash": Command(_add_arguments, _run)}
