"""What is found out about a baseline is found out once for all tests of a session: its folder says what it is of.

The folder of a baseline is named by a digest of everything that it depends on. Tests that look at how it is found
out are marked `own_baseline`.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio.to_thread

from codeflash_parallel.baseline import baseline_store
from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.workspace.git.git_client import find_repository

#: Where this session keeps them; every process of pytest-xdist has the same place.
_SHARED: list[Path] = []

_load_or_learn = baseline_store.load_or_learn


def keep_baselines_in(folder: Path) -> None:
    """Have all tests of the session share what they find out."""
    folder.mkdir(exist_ok=True)
    _SHARED[:] = [folder]


async def load_or_learn(folder: Path, learn: Callable[[], Awaitable[Baseline]]) -> Baseline:
    """Stand for `baseline_store.load_or_learn`."""
    shared = _SHARED[0] / folder.name
    if not (folder / "baseline.json").exists():
        await anyio.to_thread.run_sync(copy_baseline, shared, folder)
    known = await _load_or_learn(folder, learn)
    await anyio.to_thread.run_sync(copy_baseline, folder, shared)
    return known


def copy_baseline(source: Path, target: Path) -> None:
    """Copy the folder of one baseline, whole or not at all; one that is there stays."""
    if not (source / "baseline.json").is_file() or (target / "baseline.json").exists():
        return
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target) as name:
        draft = Path(name)
        for path in source.iterdir():
            if path.is_file() and path.name != "learning.lock":
                shutil.copy(path, draft / path.name)
        for path in sorted(
            draft.iterdir(), key=lambda path: path.name == "baseline.json"
        ):  # the file that counts is last
            path.replace(target / path.name)


def give(cache: Path, repository: Path) -> None:
    """Copy what is known into a cache that a command will use on a repository."""
    if _SHARED:
        home = cache / find_repository(repository).key / "baselines"
        for source in _SHARED[0].iterdir():
            copy_baseline(source, home / source.name)


def take(cache: Path) -> None:
    """Keep what a command has found out."""
    if _SHARED:
        for source in cache.glob("*/baselines/*"):
            copy_baseline(source, _SHARED[0] / source.name)
