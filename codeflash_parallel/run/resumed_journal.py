"""Begin a run's journal, and go on with a run that another process has left."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from codeflash_parallel import __version__
from codeflash_parallel.config.settings import SETTING_NAMES, Settings
from codeflash_parallel.config.settings_json import FREE, settings_document
from codeflash_parallel.repair.command_providers import CommandProvider, CommandRefiner, CommandRepairer
from codeflash_parallel.result.candidate.candidate_model import Submission
from codeflash_parallel.result.errors import CodeflashParallelError, EnvironmentFault, UsageError
from codeflash_parallel.run.providers.provider_requests import Providers
from codeflash_parallel.run.setup.evaluator_resources import EvaluatorResources
from codeflash_parallel.run.state.race_mode import RaceMode
from codeflash_parallel.run.store.journal import Journal
from codeflash_parallel.run.store.journal_events import (
    SCHEMA,
    Begun,
    Ended,
    Ending,
    Provider,
    Snapshotted,
    SourceEnded,
    Submitted,
)
from codeflash_parallel.run.store.journal_state import JournalState
from codeflash_parallel.workspace.snapshot.snapshot import Snapshot


def must_have_same_settings(known: JournalState, settings: Settings) -> None:
    """Refuse to go on with a run under settings that may lead to other verdicts.

    Raises:
        UsageError: `OTHER_SETTINGS`.
    """
    mine = settings_document(settings)
    then = known.begun.settings
    differing = [name for name in SETTING_NAMES if name not in FREE and mine[name] != then.get(name)]
    if differing:
        raise UsageError(
            "OTHER_SETTINGS",
            f"Run {known.begun.run_id} has other settings: {', '.join(differing)}.",
            "Take those of the run: `stored_run`.",
        )


def _provider(provider: object) -> Provider | None:
    if provider is None:
        return None
    if not isinstance(provider, CommandProvider):
        return Provider()
    return Provider(argv=provider.argv, cwd=str(Path(provider.cwd or os.curdir).resolve()))


def providers_again(given: Providers, begun: Begun, settings: Settings) -> Providers:
    """Return the providers that are given, else the commands that the run had."""
    deadline_s = settings.provider_timeout
    repairer, refiner = given.repairer, given.refiner
    if repairer is None and begun.repairer and begun.repairer.argv:
        repairer = CommandRepairer(**asdict(begun.repairer), deadline_s=deadline_s)
    if refiner is None and begun.refiner and begun.refiner.argv:
        refiner = CommandRefiner(**asdict(begun.refiner), deadline_s=deadline_s)
    return Providers(repairer=repairer, refiner=refiner)


def mode_of(begun: Begun) -> RaceMode:
    """Return how far a run was to go."""
    if not begun.races:
        return RaceMode.CHECK
    return RaceMode.RACE if begun.refines else RaceMode.TIME


def missing_providers(providers: Providers, begun: Begun) -> Iterator[str]:
    """Yield what nobody answers any more, one sentence each."""
    for name, had, has in (
        ("repairer", begun.repairer, providers.repairer),
        ("refiner", begun.refiner, providers.refiner),
    ):
        if had is not None and has is None:
            yield f"The run had a {name} that is a callable; it is not given now, and asked nothing more."


# --- the journal -----------------------------------------------------------------------------------------


async def begin_journal(
    journal: Journal,
    around: EvaluatorResources,
    begun: Mapping[str, Any],
    providers: Providers,
    there: Sequence[Submission] | None,
) -> None:
    """Write down what is asked for, on the disk when this returns.

    Args:
        begun: `run_id`, `races`, `refines` and `seed` (see `Begun`).
        there: all candidates; `None` where they come one by one.
    """
    complete = providers.completed(around.setup.settings)
    first = Begun(
        **begun,
        schema=SCHEMA,
        version=__version__,
        repository=str(around.setup.repository.root),
        project=str(around.setup.repository.project),
        expected=-1 if there is None else len(there),
        settings=settings_document(around.setup.settings),
        repairer=_provider(complete.repairer),
        refiner=_provider(complete.refiner),
    )
    if there is None:
        await journal.keep(first)
    else:
        await journal.keep(first, *(Submitted(submission=one) for one in there), SourceEnded())


@contextmanager
def kept_in(journal: Journal, run_dir: Path) -> Iterator[None]:
    """Close a journal at the end; a run that failed before it found out anything leaves nothing."""
    try:
        yield
    except CodeflashParallelError as error:
        if journal.has_findings or (run_dir / "result.json").exists():
            with suppress(OSError):  # the disk is full: what is there says that the run was broken off
                journal.note(Ended(ending=Ending.FAILED, code=error.code, message=error.message))
        else:
            shutil.rmtree(run_dir, ignore_errors=True)
        raise
    finally:
        journal.close()


def notes_on(known: JournalState, providers: Providers) -> Iterator[str]:
    """Yield what a person should know about a run that goes on, one sentence each."""
    if not known.source_ended:
        yield "The source of candidates had not ended; those that it had not given are not part of the run."
    yield from missing_providers(providers, known.begun)


# --- the snapshot ----------------------------------------------------------------------------------------


async def same_snapshot(
    around: EvaluatorResources, known: Snapshotted, warn: Callable[[str], None]
) -> Snapshot:
    """Return the snapshot that a run had. The user's tree may have changed since; then that is said.

    Raises:
        EnvironmentFault: `SNAPSHOT_GONE`: the mirror has lost it, and the tree is another one now.
    """
    wanted = Snapshot(**asdict(known))
    now = await _snapshot_now(around)
    if now == wanted.commit:
        return wanted
    if not await around.setup.mirror.holds(wanted):
        raise EnvironmentFault(
            "SNAPSHOT_GONE",
            f"The snapshot {wanted.commit[:12]} of the run is gone, and the tree is another one now.",
            "Evaluate again.",
        )
    around.setup.mirror.adopt(wanted, around.setup.snapshot_request)
    warn(f"The tree has changed since the run began: it goes on with snapshot {wanted.commit[:12]}.")
    return wanted


async def _snapshot_now(around: EvaluatorResources) -> str:
    """Return the commit of the tree as it is now; empty where it cannot be taken (a base that is gone)."""
    try:
        return (await around.snapshot()).commit
    except (UsageError, EnvironmentFault):
        return ""
