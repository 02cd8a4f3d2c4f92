"""Baselines on disk: one folder each, named by everything that it depends on."""

from __future__ import annotations

import io
import json
import stat
import tarfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.process.files import FileLock, wait_for_lock, write_durably
from codeflash_parallel.result.candidate_model import digest_of
from codeflash_parallel.result.codec import from_plain, to_plain
from codeflash_parallel.result.errors import EnvironmentFault
from codeflash_parallel.workspace.cache_layout import cache_faults
from codeflash_parallel.workspace.tree_guard import OriginalFile

#: Version of the file; one of another version is made anew.
SCHEMA = 14
#: What the baseline's runs have compiled.
_BYTECODE = "bytecode.tar"
#: Files that belong to a baseline, and are believed only as they were written.
_BESIDE = ("inputs", "derived", _BYTECODE)
#: How often it is looked whether another process has found out what we want to know, in seconds.
_RETRY_S = 0.05


def load(folder: Path) -> Baseline | None:
    """Read a baseline from disk; one that is damaged, or whose inputs are not its own, is none."""
    try:
        stored = json.loads((folder / "baseline.json").read_bytes())
        baseline: Baseline = from_plain(Baseline, _sealed(folder, stored))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    if baseline.calls and not (folder / "inputs").is_file():
        return None
    if baseline.derived and not (folder / "derived").is_file():
        return None
    return replace(baseline, inputs=str(folder / "inputs"), derived_inputs=str(folder / "derived"))


@asynccontextmanager
async def one_learner(folder: Path) -> AsyncIterator[None]:
    """Be the only one on this machine who finds out a baseline; waiting can be cancelled.

    Two preflights of one baseline would write the same files, and a second one finds out nothing new.
    """
    while (lock := await anyio.to_thread.run_sync(_try_lock, folder)) is None:  # noqa: ASYNC110
        await anyio.sleep(_RETRY_S)
    try:
        yield
    finally:
        lock.release()


async def load_or_learn(folder: Path, learn: Callable[[], Awaitable[Baseline]]) -> Baseline:
    """Return the baseline of a folder, which is made there and kept if there is none."""
    async with one_learner(folder):
        known = await anyio.to_thread.run_sync(load, folder)
        if known is None:
            known = await learn()
            await anyio.to_thread.run_sync(save, folder, known)
    return known


def _try_lock(folder: Path) -> FileLock | None:
    with cache_faults(folder):
        folder.mkdir(parents=True, exist_ok=True)
        return wait_for_lock(folder / "learning.lock", 0.0)


def save(folder: Path, baseline: Baseline) -> None:
    """Write a baseline, whole or not at all.

    Raises:
        EnvironmentFault: the cache cannot be written.
    """
    try:
        data = to_plain(baseline)
        seal = {"schema": SCHEMA, "digest": _digest(data), "files": _files(folder)}
        write_durably(folder / "baseline.json", json.dumps({**seal, "baseline": data}).encode())
    except OSError as error:
        raise EnvironmentFault("CACHE_UNWRITABLE", f"{folder} cannot be written: {error}.") from error


def write_bytecode(folder: Path, bytecode: Mapping[str, OriginalFile]) -> None:
    """Keep the bytecode that a baseline's runs have made: later runs need not compile the project.

    Raises:
        EnvironmentFault: the cache cannot be written.
    """
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path, made in bytecode.items():
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(made.data), stat.S_IMODE(made.mode)
            archive.addfile(entry, io.BytesIO(made.data))
    with cache_faults(folder):
        write_durably(folder / _BYTECODE, packed.getvalue())


def read_bytecode(folder: Path) -> dict[str, OriginalFile]:
    """Return the bytecode that was kept with a baseline that was just loaded, by path."""
    found = {}
    with suppress(OSError, tarfile.TarError), tarfile.open(folder / _BYTECODE) as archive:
        for entry in archive:
            file = archive.extractfile(entry)
            if file is not None:
                found[entry.name] = OriginalFile(data=file.read(), mode=stat.S_IFREG | entry.mode)
    return found


def _sealed(folder: Path, stored: Any) -> Any:
    """Return what a file holds, if all of it and of the files beside it is what was written.

    Raises:
        ValueError: it is not.
    """
    data = stored["baseline"]
    if stored["schema"] != SCHEMA or stored["digest"] != _digest(data) or stored["files"] != _files(folder):
        raise ValueError("damaged, or of another version")
    return data


def _digest(data: Any) -> str:
    return digest_of(json.dumps(data, sort_keys=True).encode())


def _files(folder: Path) -> dict[str, str]:
    """Return the digests of the files that belong to a baseline."""
    paths = [folder / name for name in _BESIDE]
    return {path.name: digest_of(path.read_bytes()) for path in paths if path.is_file()}
