"""`run`, `check` and `resume`: evaluate candidates and report. Their options are the settings of a run."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from codeflash_parallel.candidates.submissions import InRepository, read_submissions
from codeflash_parallel.cli import options
from codeflash_parallel.cli.evaluator_host import current_host
from codeflash_parallel.cli.exit_codes import Interrupts, SignalInterrupt, handling_signals
from codeflash_parallel.cli.options import Command
from codeflash_parallel.cli.output import Format, Output, drop_stdout, must_be_writable, write_file
from codeflash_parallel.cli.stored_runs import add_run, exit_code_of, find_places, report
from codeflash_parallel.config.settings import HOSTS, SETTINGS
from codeflash_parallel.config.settings_reader import read_settings, refuse_unused
from codeflash_parallel.config.settings_table import SettingColumns, SettingGroup
from codeflash_parallel.result.errors import UsageError

if TYPE_CHECKING:
    from codeflash_parallel.config.settings import Settings
    from codeflash_parallel.result.events import Event, Observer
    from codeflash_parallel.result.result_model import RunResult
    from codeflash_parallel.run.evaluator import Evaluator
    from codeflash_parallel.run.provider_requests import Providers
    from codeflash_parallel.run.run_trace import RunTrace
    from codeflash_parallel.workspace.git.git_candidates import FoundCandidate

#: Settings of a stored run that may be changed: they change no verdict.
_CHANGEABLE = {
    name: row for name, row in SETTINGS.items() if row.group == SettingGroup.CONDITIONS or name in HOSTS
}


# --- options ---------------------------------------------------------------------------------------------


def _add_run(parser: argparse.ArgumentParser) -> None:
    _add_evaluation(parser, settings=SETTINGS.values(), providers=("repairer", "refiner"))


def _add_check(parser: argparse.ArgumentParser) -> None:
    """Add every option of an evaluation without a race: what would be ignored is refused."""
    settings = [row for row in SETTINGS.values() if row.group != SettingGroup.RACE]
    _add_evaluation(parser, settings=settings, providers=("repairer",))


def _add_evaluation(
    parser: argparse.ArgumentParser, *, settings: Iterable[SettingColumns], providers: Sequence[str]
) -> None:
    parser.usage = f"{parser.prog} --candidates PATH [options]"  # the whole of it would fill a screen
    options.add_candidates(parser)
    group = parser.add_argument_group("settings", "Also in pyproject.toml, [tool.codeflash-parallel].")
    options.add_settings(group, (row for row in settings if row not in options.SHARED))
    options.add_providers(parser, providers)
    options.add_reports(parser)


def _add_resume(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    group = parser.add_argument_group("settings", "All others are those of the run.")
    options.add_settings(group, _CHANGEABLE.values())
    options.add_providers(parser, ("repairer", "refiner"))
    options.add_reports(parser)


# --- commands --------------------------------------------------------------------------------------------


def _evaluate(args: argparse.Namespace, output: Output, *, mode: str) -> int:
    """Evaluate candidates; return 0 if there is a winner or a tie, for `check` if one is equivalent."""
    with handling_signals(output) as interrupts:
        settings = read_settings(Path(args.project), os.environ, vars(args)).settings
        if not args.sources:
            hint = "Give --candidates PATH or --candidate REF."
            raise UsageError("NO_CANDIDATES", "No candidates are named.", hint)
        submissions = read_submissions(args.sources, in_repository(args, settings))
        _require_writable(args, output)
        if not submissions:
            return _report_all(_nothing_to_do(), args, output)

        from codeflash_parallel.run.run_state import RaceMode

        repair = _one("repairer", args.repairer, "repair-command", settings.repair_command)
        refine = ""
        if "refiner" in args:  # `check` has no race, hence nothing to refine
            refine = _one("refiner", args.refiner, "refine-command", settings.refine_command)
        providers = _providers(args, settings, repair, refine)

        async def work(evaluator: Evaluator, observers: Sequence[Observer]) -> RunResult:
            return await evaluator.evaluate(
                submissions,
                repairer=providers.repairer,
                refiner=providers.refiner,
                observers=observers,
                race=RaceMode(mode),
            )

        with _observing(args, output) as observers:
            result = drive(Path(args.project), settings, work, observers, interrupts)
        return _report_all(result, args, output)


def _resume(args: argparse.Namespace, output: Output) -> int:
    """Continue a run and report; return the exit code of its result. A finished one is only reported."""
    from codeflash_parallel.run.evaluator import stored_run
    from codeflash_parallel.run.run_folder import find_run, load_document, stored_result
    from codeflash_parallel.run.run_state import read_state

    with handling_signals(output) as interrupts:
        repository, cache = find_places(args)
        run_dir = find_run(cache / repository.key, args.run_name, with_result=False)
        _require_writable(args, output)
        if read_state(run_dir).is_finished:
            sys.stderr.write(f"Run {run_dir.name} is finished: there is nothing to continue. Its result:\n")
            return _report_all(stored_result(load_document(run_dir)), args, output)
        changed = {name: value for name, value in vars(args).items() if name in _CHANGEABLE}
        stored = stored_run(run_dir.name, repository.root, cache_dir=os.fspath(cache), **changed)
        refuse_unused(stored.settings, changed)
        providers = _providers(args, stored.settings, args.repairer, args.refiner)

        async def work(evaluator: Evaluator, observers: Sequence[Observer]) -> RunResult:
            return await evaluator.resume(
                run_dir.name, repairer=providers.repairer, refiner=providers.refiner, observers=observers
            )

        with _observing(args, output) as observers:
            result = drive(stored.project, stored.settings, work, observers, interrupts)
        return _report_all(result, args, output)


COMMANDS = {
    "run": Command(_add_run, partial(_evaluate, mode="race")),
    "check": Command(_add_check, partial(_evaluate, mode="check")),
    "resume": Command(_add_resume, _resume),
}


def _require_writable(args: argparse.Namespace, output: Output) -> None:
    """Notice before the run that a report cannot be written after it."""
    output.must_be_writable()
    for report_path in filter(None, (args.junit_xml, args.markdown, _plot_beside(args.markdown), args.html)):
        must_be_writable(Path(report_path))


def _providers(args: argparse.Namespace, settings: Settings, repair: str, refine: str) -> Providers:
    """Return the providers that two texts name, as `command_provider` reads them.

    Raises:
        UsageError: one cannot be run.
    """
    from codeflash_parallel.run.provider_requests import Providers

    cwd = str(Path(args.project).resolve())
    return Providers.of(repair, refine, deadline_s=settings.provider_timeout, cwd=cwd)


def _one(option: str, name: str, key: str, command: str) -> str:
    """Return the callable of the command line or the command of the settings.

    Raises:
        UsageError: there are both.
    """
    if name and command:
        raise UsageError("BAD_ARGUMENTS", f"--{option} and {key} are both given.", "Give one of them.")
    return name or command


def in_repository(args: argparse.Namespace, settings: Settings) -> InRepository:
    """Return what finds candidates in the project's repository."""

    def find(text: str) -> list[FoundCandidate] | None:
        from codeflash_parallel.workspace.git.git_candidates import find_candidates

        return find_candidates(Path(args.project), settings.base, text)

    return find


def _nothing_to_do() -> RunResult:
    """Return the result of an empty list: nothing is looked at, not even the repository."""
    from codeflash_parallel.result.outcome_codes import Verdict
    from codeflash_parallel.result.result_model import RunResult
    from codeflash_parallel.run.pipeline import new_run_id

    return RunResult(
        run_id=new_run_id(), complete=True, verdict=Verdict.NONE_CORRECT, summary="There are no candidates."
    )


# --- the event loop --------------------------------------------------------------------------------------


def drive(
    project: Path,
    settings: Settings,
    work: Callable[[Evaluator, Sequence[Observer]], Awaitable[RunResult]],
    observers: Sequence[Observer],
    interrupts: Interrupts,
) -> RunResult:
    """Evaluate, and return the result; after a signal, the incomplete one.

    Raises:
        SignalInterrupt: a signal came before there was a run.
        UsageError, EnvironmentFault: the run could not be made.
    """
    import asyncio

    import anyio

    from codeflash_parallel.result.events import RunStarted

    host = current_host()

    async def driven() -> RunResult:
        scope, loop = anyio.CancelScope(), asyncio.get_running_loop()
        running: list[Evaluator] = []  # it, once there is a run

        def end(name: str) -> None:
            if running:
                running[0].interrupt(name)
            else:
                scope.cancel()

        interrupts.passed_to(lambda name: loop.call_soon_threadsafe(end, name))
        with scope:
            async with host.lend(project, settings) as evaluator:

                def note_start(event: Event) -> None:
                    if isinstance(event, RunStarted):
                        running[:] = [evaluator]

                result = await work(evaluator, (note_start, *observers))
            interrupts.come_too_late()
            return result
        raise SignalInterrupt(interrupts.received)

    return host.run(driven)


@contextmanager
def _observing(args: argparse.Namespace, output: Output) -> Iterator[list[Observer]]:
    """Give the observers of a run: the board on standard error, events as JSON lines."""
    from codeflash_parallel.report.progress_board import open_board

    events: list[Observer] = [output.events()] if output.form == Format.JSONL else []
    if args.quiet or output.form == Format.BRIEF:
        yield events
        return
    with open_board(sys.stderr) as board:
        yield [board, *events]


# --- reports ---------------------------------------------------------------------------------------------


def _report_all(result: RunResult, args: argparse.Namespace, output: Output) -> int:
    """Write every report that was asked for; return the exit code."""
    try:
        if args.junit_xml:
            from codeflash_parallel.report.junit import junit_xml

            write_file(Path(args.junit_xml), junit_xml(result))
        if args.markdown:
            _write_markdown(result, Path(args.markdown), with_timings=args.timings)
        if args.html:
            from codeflash_parallel.report.page.run_page import run_page

            write_file(Path(args.html), run_page(result, _trace_of(result)))
        report(result, output, quiet=args.quiet, verbose=args.verbose, timings=args.timings)
    except BrokenPipeError:
        drop_stdout()  # the reader has seen enough; the exit code is the verdict's all the same
    return exit_code_of(result)


def _write_markdown(result: RunResult, path: Path, *, with_timings: bool) -> None:
    """Write the summary, and beside it the plot that it shows: Markdown can only refer to one."""
    from codeflash_parallel.report.columns import timed_candidates
    from codeflash_parallel.report.markdown import markdown, timings_markdown

    plot = Path(_plot_beside(str(path))) if timed_candidates(result) else Path()
    if plot.name:
        from codeflash_parallel.report.page.plots import file_of, speedup_plot

        write_file(plot, file_of(speedup_plot(result, _trace_of(result).rounds)))
    appendix = timings_markdown(result) if with_timings else ""
    text = markdown(result, plot.name)
    write_file(path, "\n".join(filter(None, (text, appendix))))


def _plot_beside(markdown: str) -> str:
    """Return the path of the plot of a summary `NAME.md`; empty: a pipe has no place beside it."""
    return f"{markdown.removesuffix('.md')}.svg" if markdown.endswith(".md") else ""


def _trace_of(result: RunResult) -> RunTrace:
    """Return what the folder of a run holds of its rounds; an empty list of candidates has no folder."""
    from codeflash_parallel.run.run_trace import RunTrace, read_trace

    return read_trace(Path(result.run_dir)) if result.run_dir else RunTrace()
