"""Measurements on disk: one file a record in the folder `races` of a run, each whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import anyio

from codeflash_parallel.benchmark.record import Record, RunRecord, from_json, to_json
from codeflash_parallel.model.errors import EnvironmentFault
from codeflash_parallel.process.files import write_atomically

#: Folder of a run's records. They are read in the order of their names.
FOLDER = "races"


class Recorder:
    """Writes a run's records, in order.

    Args:
        run_dir: of the run.
        first: the record that precedes all others; a run without a race has none.
    """

    def __init__(self, run_dir: Path, first: RunRecord) -> None:
        self._folder = run_dir / FOLDER
        self._first = first
        self._count = 0

    async def add(self, record: Record) -> None:
        """Write one more record; a file is there whole or not at all, even when this is cancelled."""
        records = (record,) if self._count else (self._first, record)
        await anyio.to_thread.run_sync(self._write, records)

    def _write(self, records: Sequence[Record]) -> None:
        for record in records:
            data = json.dumps(to_json(record), separators=(",", ":")).encode()
            write_atomically(self._folder / f"{self._count:04d}.json", data)
            self._count += 1


def load_records(run_dir: Path) -> tuple[Record, ...]:
    """Return the records of a run in order; empty when nothing was raced.

    Raises:
        EnvironmentFault: `BAD_RECORD`: one is missing or damaged, or from another version.
    """
    paths = sorted((run_dir / FOLDER).glob("*.json"))
    for number, path in enumerate(paths):
        if path.name != f"{number:04d}.json":
            raise _bad(run_dir / FOLDER / f"{number:04d}.json", "it is missing")
    return tuple(_load(path) for path in paths)


def _load(path: Path) -> Record:
    try:
        return from_json(json.loads(path.read_text(encoding="utf-8")))
    except json.JSONDecodeError as error:
        raise _bad(path, f"it is damaged at character {error.pos}") from error
    except (OSError, ValueError) as error:
        raise _bad(path, str(error)) from error


def _bad(path: Path, why: str) -> EnvironmentFault:
    return EnvironmentFault(
        "BAD_RECORD",
        f"The record {path} cannot be read: {why}.",
        "Evaluate again to get a run that can be replayed.",
    )
