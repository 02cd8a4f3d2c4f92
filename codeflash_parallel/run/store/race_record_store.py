"""Measurements on disk: one file a record in the folder `races` of a run, each whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import anyio

from codeflash_parallel.process.atomic_file import write_durably
from codeflash_parallel.race.plan import RacePlan
from codeflash_parallel.race.race_record import RaceRecord, Record, RunRecord, from_json, to_json
from codeflash_parallel.race.race_result import Raced

#: Folder of a run's records. They are read in the order of their names.
FOLDER = "races"


class RaceRecorder:
    """Writes a run's records, in order.

    Args:
        run_dir: of the run.
        first: the record that precedes all others; a run without a race has none.
        kept: what an earlier process of the same run recorded. It holds as long as the same comes again; with
            the first difference the rest is removed.
    """

    def __init__(self, run_dir: Path, first: RunRecord, kept: Sequence[Record] = ()) -> None:
        self._folder = run_dir / FOLDER
        self._first = first
        self._kept = tuple(kept) if kept and kept[0] == first else ()
        self._count = 0

    def held(self, plan: RacePlan, candidates: Sequence[str]) -> Raced | None:
        """Return what comes next, where it is this race and an earlier process has held it."""
        match self._kept[max(1, self._count) :]:
            case (RaceRecord(outcome=Raced() as raced), *_) if _went_by(
                raced.plan, plan
            ) and raced.candidates == tuple(candidates):
                return raced
        return None

    async def add(self, record: Record) -> None:
        """Write one more record; a file is there whole or not at all, even when this is cancelled."""
        records = (record,) if self._count else (self._first, record)
        await anyio.to_thread.run_sync(self._write, records)

    def _write(self, records: Sequence[Record]) -> None:
        for record in records:
            data = _text(record).encode()
            if not self._is_kept(data):
                self._drop_the_rest()
                write_durably(self._folder / f"{self._count:04d}.json", data)
            self._count += 1

    def _is_kept(self, data: bytes) -> bool:
        """Say whether an earlier process has written this record in this place."""
        there = self._kept[self._count : self._count + 1]
        return bool(there) and _text(there[0]).encode() == data

    def _drop_the_rest(self) -> None:
        self._kept = self._kept[: self._count]
        for path in sorted(self._folder.glob("*.json"))[self._count :]:
            path.unlink()


def _went_by(ended: RacePlan, plan: RacePlan) -> bool:
    """Return whether a race went by a plan; what can be loaded, and is dear, it has found out itself."""
    same = replace(ended, groups=plan.groups, dear=plan.dear) == plan
    return same and set(ended.groups) <= set(plan.groups)


def _text(record: Record) -> str:
    return json.dumps(to_json(record), separators=(",", ":"))


def sound_records(run_dir: Path) -> tuple[Record, ...]:
    """Return the records of a run that was broken off, in order, up to the first that cannot be read."""
    found: list[Record] = []
    with suppress(OSError, ValueError):
        while (path := run_dir / FOLDER / f"{len(found):04d}.json").exists():
            found.append(from_json(json.loads(path.read_text(encoding="utf-8"))))
    return tuple(found)
