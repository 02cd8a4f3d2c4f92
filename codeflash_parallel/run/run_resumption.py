"""Go on with a run from synchronous code, under the settings that it had."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio

from codeflash_parallel.config.cache_paths import cache_root
from codeflash_parallel.config.settings import Settings
from codeflash_parallel.config.settings_json import FREE, settings_of
from codeflash_parallel.repair.provider_protocol import Refiner, Repairer
from codeflash_parallel.result.errors import UsageError
from codeflash_parallel.result.events import Observer
from codeflash_parallel.result.result_model import RunResult
from codeflash_parallel.run.evaluator import Evaluator
from codeflash_parallel.run.store.run_state import read_state
from codeflash_parallel.workspace.git.repository import find_repository


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredRun:
    """A run that can be gone on with.

    Attributes:
        project: folder in the user's repository that it was begun for.
        settings: those of the run, with the cache that it lies in.
    """

    run_id: str
    project: Path
    settings: Settings


def stored_run(
    run_id: str, repository: Path | str = ".", *, cache_dir: str = "", **changed: object
) -> StoredRun:
    """Return what a run was asked for, so that an `Evaluator` with its settings can go on with it.

    Args:
        run_id: the whole id.
        repository: a path inside the user's repository.
        cache_dir: where the run is kept; empty: the user's cache directory.
        changed: settings that shall be others now; only those that change no verdict.

    Raises:
        UsageError: not a repository, no such run, or `OTHER_SETTINGS`.
        EnvironmentFault: its files cannot be read.
    """
    other = sorted(changed.keys() - set(FREE))
    if other:
        raise UsageError("OTHER_SETTINGS", f"A run that goes on keeps its {', '.join(other)}.")
    cache, found = cache_root(Settings(cache_dir=cache_dir)), find_repository(Path(repository))
    run_dir = cache / found.key / "runs" / run_id
    if not run_id or not run_dir.is_dir():
        raise UsageError("NO_SUCH_RUN", f"There is no run {run_id!r} of this repository.", "See `list`.")
    request = read_state(run_dir).request
    settings = settings_of(request.settings, **{**changed, "cache_dir": str(cache)})
    return StoredRun(run_id=run_id, project=found.root / request.project, settings=settings)


def resume(
    run_id: str,
    repository: Path | str = ".",
    *,
    cache_dir: str = "",
    repairer: Repairer | None = None,
    refiner: Refiner | None = None,
    observers: Sequence[Observer] = (),
    backend: str = "asyncio",
) -> RunResult:
    """Go on with a run from synchronous code: `Evaluator.resume` under an event loop of its own.

    Args:
        run_id: as in `stored_run`.
        repository: as in `stored_run`.
        cache_dir: as in `stored_run`.
        repairer: as in `evaluate`; commands that the run had are found again.
        refiner: likewise.
        observers: as in `evaluate`.
        backend: event loop, `asyncio` or `trio`.

    Raises:
        UsageError, EnvironmentFault: it cannot be continued; see `Evaluator.resume`.

    .. versionadded:: 0.1.0
    """
    stored = stored_run(run_id, repository, cache_dir=cache_dir)

    async def main() -> RunResult:
        async with Evaluator(stored.project, stored.settings) as evaluator:
            return await evaluator.resume(run_id, repairer=repairer, refiner=refiner, observers=observers)

    return anyio.run(main, backend=backend)
