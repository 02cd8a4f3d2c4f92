"""`replay`: the verdict of an earlier run once more, from what was measured then."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TextIO

from codeflash_parallel import __version__
from codeflash_parallel.cli import options
from codeflash_parallel.cli.config import flag_of
from codeflash_parallel.cli.exits import ExitCode
from codeflash_parallel.cli.output import Format, Output
from codeflash_parallel.cli.places import add_run, find_places
from codeflash_parallel.model.errors import EnvironmentFault, UsageError
from codeflash_parallel.model.settings import Settings

if TYPE_CHECKING:
    from codeflash_parallel.benchmark.plan import RacePlan
    from codeflash_parallel.benchmark.ranking import Ranking
    from codeflash_parallel.benchmark.record import Record
    from codeflash_parallel.engine.replay import Replay

#: Settings that can be asked "what if" about: rules of the decision, each a field of the plan of a race.
RULES = ("confidence", "min_speedup", "indifference", "max_regression")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `replay`."""
    add_run(parser)
    group = parser.add_argument_group("what if", "Judge the same measurements by other rules.")
    options.add_settings(group, RULES)
    options.add_output(parser)


def run(args: argparse.Namespace, output: Output) -> int:
    """Judge the recorded rounds once more; return 5 when the verdict is not what it was."""
    from codeflash_parallel.engine.replay import held_against
    from codeflash_parallel.engine.samples import load_records
    from codeflash_parallel.engine.store import load_document

    rules = {name: value for name, value in vars(args).items() if name in RULES}
    Settings(**rules)  # raises for what no run could have been asked for
    run_dir = find_places(args).run_dir(args.run_name)
    found = _replayed(load_records(run_dir), rules, run_dir.name)
    if not rules:
        found = held_against(found, load_document(run_dir))
    if output.form == Format.TEXT:
        output.write_report(lambda stream: _print(found, rules, stream))
    else:
        output.write_values(replay_document(found, rules))
    return ExitCode.DIFFERS if found.differences and not rules else ExitCode.OK


def _replayed(records: tuple[Record, ...], rules: Mapping[str, Any], name: str) -> Replay:
    """Return the verdict then and now.

    Raises:
        UsageError: `NOT_RACED`: the run measured nothing.
        EnvironmentFault: `BAD_RECORD`: what it recorded leads to no verdict.
    """
    from codeflash_parallel.engine.policies import load_policy
    from codeflash_parallel.engine.replay import Incomplete, replay

    if not records:
        raise UsageError(
            "NOT_RACED", f"Run {name} recorded no race: there is nothing to replay.", "See `show`."
        )

    def changed(plan: RacePlan) -> RacePlan:
        return replace(plan, **rules)

    try:
        return replay(records, load_policy, changed)
    except Incomplete as error:
        raise EnvironmentFault("BAD_RECORD", f"Run {name} cannot be replayed: {error.reason}.") from error


def replay_document(found: Replay, rules: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of a replay as JSON values; rankings are as in the record."""
    from codeflash_parallel.benchmark.record import plain

    return {
        "run_id": found.run.run_id,
        "measured_by": found.run.version,
        "seed": found.run.seed,
        "what_if": dict(rules),
        "same": not found.differences,
        "differences": list(found.differences),
        "races": found.races,
        "confirmations": found.confirmations,
        "rounds": found.rounds,
        "recorded": plain(found.recorded),
        "recomputed": plain(found.recomputed),
    }


def _print(found: Replay, rules: Mapping[str, Any], stream: TextIO) -> None:
    from codeflash_parallel.report.console import make_console, print_rows
    from codeflash_parallel.report.text import printable

    console = make_console(stream)
    console.print(
        f"Run {found.run.run_id}: {_count(found.races, 'race')}, "
        f"{_count(found.confirmations, 'confirmation')}, {_count(found.rounds, 'round')}."
    )
    console.print(f"Recorded: {printable(found.recorded.summary)}")
    if rules:
        asked = " ".join(f"{flag_of(name)} {value:g}" for name, value in rules.items())
        console.print(f"What if {asked}: {printable(found.recomputed.summary)}")
        print_rows(("candidate", "recorded", "what if"), _rows(found.recorded, found.recomputed), console)
        console.print("Nothing was timed again: each has the rounds that the run gave it by its own rules.")
        return
    if not found.differences:
        console.print("Recomputed from the rounds: the same, bit by bit.")
        return
    console.print(f"Recomputed from the rounds: NOT the same. {printable(found.recomputed.summary)}")
    console.print(f"What differs: {'; '.join(found.differences)}.")
    if found.run.version != __version__:
        console.print(f"It was measured by version {found.run.version}, this is {__version__}.")


def _rows(recorded: Ranking, recomputed: Ranking) -> list[tuple[str, str, str]]:
    """Return what is said of every candidate, then and with the other rules."""
    now = {ranked.id: ranked for ranked in recomputed.candidates}
    return [
        (then.id, f"{then.status}: {then.reason}", f"{now[then.id].status}: {now[then.id].reason}")
        for then in recorded.candidates
    ]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
