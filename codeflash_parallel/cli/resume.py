"""`resume`: go on with a run that was killed, interrupted, or cut short by its wall budget."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from codeflash_parallel.cli import options
from codeflash_parallel.cli.output import Output, drop_stdout
from codeflash_parallel.cli.run_support.evaluation import look_at_reports, observing, report_all
from codeflash_parallel.cli.run_support.run_finder import RunFinder, add_run, find_places
from codeflash_parallel.cli.run_support.verdict_exit_codes import exit_code_of
from codeflash_parallel.cli.signals import Interrupts, handling_signals
from codeflash_parallel.config.settings import SETTINGS
from codeflash_parallel.config.settings_table import SettingGroup

if TYPE_CHECKING:
    from codeflash_parallel.result.result_model import RunResult

#: Settings that may be others than those of the run: they change no verdict.
CHANGEABLE = {name: row for name, row in SETTINGS.items() if row.group == SettingGroup.CONDITIONS}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `resume`."""
    add_run(parser)
    group = parser.add_argument_group("settings", "All others are those of the run.")
    options.add_settings(group, CHANGEABLE.values())
    options.add_providers(parser, ("repairer", "refiner"))
    options.add_reports(parser)
    options.add_output(parser)


def run(args: argparse.Namespace, output: Output) -> int:
    """Go on with a run and report; return the exit code of its result. A finished one is only reported."""
    from codeflash_parallel.run.run_state import read_state

    with handling_signals(output) as interrupts:
        places = find_places(args)
        run_dir = places.begun_run_dir(args.run_name)
        look_at_reports(args, output)
        state = read_state(run_dir)
        result = (
            _finished(run_dir)
            if state.is_finished
            else _resumed(args, output, places, run_dir.name, interrupts)
        )
        try:
            report_all(result, args, output)
        except BrokenPipeError:
            drop_stdout()  # the reader has seen enough; the exit code is the verdict's all the same
    return exit_code_of(result)


def _finished(run_dir: Path) -> RunResult:
    from codeflash_parallel.run.run_folder import load_document, stored_result

    sys.stderr.write(f"Run {run_dir.name} is finished: there is nothing to go on with. Its result:\n")
    return stored_result(load_document(run_dir))


def _resumed(
    args: argparse.Namespace, output: Output, places: RunFinder, run_id: str, interrupts: Interrupts
) -> RunResult:
    from codeflash_parallel.cli.run_support.event_loop import EvaluationRequest, drive
    from codeflash_parallel.cli.run_support.providers import named
    from codeflash_parallel.run.evaluator import stored_run

    changed = {name: value for name, value in vars(args).items() if name in CHANGEABLE}
    stored = stored_run(run_id, places.repository.root, cache_dir=os.fspath(places.cache), **changed)
    providers = named(args, stored.settings)
    plan = EvaluationRequest(
        project=stored.project,
        settings=stored.settings,
        repairer=providers.repairer,
        refiner=providers.refiner,
        resumes=run_id,
    )
    with observing(args, output) as observers:
        return drive(plan, observers, interrupts)
