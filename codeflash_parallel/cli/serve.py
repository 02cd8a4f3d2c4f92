"""`serve`: the daemon that takes jobs from the queue and evaluates them."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from codeflash_parallel.cli import options
from codeflash_parallel.cli.exit_codes import ExitCode
from codeflash_parallel.cli.options import Command
from codeflash_parallel.cli.output import Output
from codeflash_parallel.cli.queue.command_base import shell_words, span
from codeflash_parallel.config.settings import HOSTS, SETTINGS, Executor
from codeflash_parallel.config.settings_reader import must_be_there, read_settings
from codeflash_parallel.queue.queue_settings import QUEUE_SETTINGS, read_queue_settings
from codeflash_parallel.result.errors import UsageError
from codeflash_parallel.result.safe_text import one_line

if TYPE_CHECKING:
    from codeflash_parallel.queue.daemon_protocol import DaemonInfo


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the rules of the queue, and how the daemon ends."""
    options.add_settings(parser, (SETTINGS[name] for name in ("queue_dir", "pass_env", *HOSTS)))
    parser.add_argument(
        "--drain",
        type=span,
        default=60.0,
        metavar="SPAN",
        help="After the first SIGTERM or Ctrl-C, jobs that run have so long to end; what has not ended then "
        "goes back to the queue. The second signal ends it at once. Default: 60s.",
    )
    parser.add_argument(
        "--on-end",
        default="",
        metavar="COMMAND",
        help="Run a command when a job has ended, with CODEFLASH_PARALLEL_JOB (its id) and "
        "CODEFLASH_PARALLEL_VERDICT (verdict, code of its error, or state) in its environment. What it "
        "prints, and whether it failed, goes to on-end.log in the queue's folder; after 60 s it is killed.",
    )
    group = parser.add_argument_group(
        "rules of the queue", "Also in pyproject.toml, [tool.codeflash-parallel.queue]."
    )
    options.add_settings(group, QUEUE_SETTINGS.values())


def _serve(args: argparse.Namespace, output: Output) -> int:
    """Serve until a signal ends it; return 0 when all is in order then."""
    from codeflash_parallel.config.settings_reader import cache_root, queue_folder
    from codeflash_parallel.queue.daemon.daemon import ServeOptions, serve

    project = Path(args.project)
    must_be_there(project)
    settings = read_settings(project, os.environ, vars(args)).settings
    is_cluster = Executor(settings.executor).is_cluster
    rules = read_queue_settings(project, os.environ, vars(args)).settings
    serve(
        ServeOptions(
            folder=queue_folder(settings),
            settings=rules,
            cache_dir=cache_root(settings),
            drain_s=args.drain,
            pass_env=settings.pass_env,
            where={name: getattr(settings, name) for name in HOSTS if is_cluster},
            on_end=_command_of(args.on_end),
            on_ready=lambda info: _tell_ready(queue_folder(settings), info, output),
        )
    )
    return ExitCode.OK


def _command_of(text: str) -> tuple[str, ...]:
    """Return the words of the command of `--on-end`.

    Raises:
        UsageError: `BAD_COMMAND`: there is no such program, which else only a log would say.
    """
    words = shell_words("--on-end", text)
    if words and not shutil.which(words[0]):
        raise UsageError("BAD_COMMAND", f"--on-end: there is no program {words[0]!r}.", "Give its path.")
    return words


def _tell_ready(folder: Path, info: DaemonInfo, output: Output) -> None:
    _say_ready(folder, info)
    if not output.form.is_text:
        output.write_values({"queue": one_line(str(folder)), "pid": info.pid, "slots": info.slots})


def _say_ready(folder: Path, info: DaemonInfo) -> None:
    from codeflash_parallel.process.host_lock import why_not_quiet

    jobs = "one job" if info.slots == 1 else f"{info.slots} jobs"
    how = "Ctrl-C or SIGTERM drains it, a second one ends it."
    sys.stderr.write(f"Serving {one_line(str(folder))}, {jobs} at once. {how}\n")
    if why := why_not_quiet(os.environ):
        sys.stderr.write(
            f"There is no quiet here, {why}: others' checks and races run beside what is timed.\n"
        )
    sys.stderr.flush()


COMMANDS = {"serve": Command(_add_arguments, _serve)}
