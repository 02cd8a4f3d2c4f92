"""Step cache of a run: the results of its finished steps, one JSON file each.

`resume` runs the run again with this cache: a step asks the cache first, then works and puts the result
there. No step asks whether the run was resumed. A file holds a value and the digest of its text. It is
written under another name and renamed; a file that is missing, damaged or of another form is a miss, and the
step is made again.

Steps that depend on the ground (interpreter, packages, environment, snapshot, our version: see
`BaselineManager.ground`) lie in a folder of that name. On another ground they are removed.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from itertools import count, takewhile
from pathlib import Path
from typing import Any

import anyio.to_thread

from codeflash_parallel.process.files import write_atomically, write_durably
from codeflash_parallel.process.machine import boot_id
from codeflash_parallel.result.candidate_model import digest_of, name_of
from codeflash_parallel.result.codec import from_plain, to_plain

#: Folder of a run's steps.
FOLDER = "steps"


class StepKind(StrEnum):
    """Kind of a step; the first part of its file's name."""

    #: A candidate that was handed in after the start, by its number.
    SUBMITTED = "submitted"
    #: The source of candidates has ended.
    SOURCE_END = "source-end"
    #: The user's tree was frozen.
    SNAPSHOT = "snapshot"
    #: A submission became edits, or cannot; a ref may name another commit later.
    PREPARED = "prepared"
    #: Answers to a request for repairs of one candidate.
    REPAIR = "repair"
    #: Answers to a request for refinements of the fastest candidates.
    REFINEMENT = "refinement"
    #: The first candidate with some code; the others are its duplicates.
    FIRST = "first"
    #: A check with the tests that can notice a change.
    SCREEN = "screen"
    #: A check with the tests that screening left out.
    REST = "rest"
    #: A check with calls whose inputs were made for the whole field.
    FRESH = "fresh"
    #: A check in a clean process.
    CLEAN = "clean"
    #: A line profile.
    PROFILE = "profile"
    #: A race or a confirmation.
    RACE = "race"

    @property
    def is_grounded(self) -> bool:
        """Whether the result depends on the ground."""
        return self.is_timed or self in _CHECKS or self is StepKind.FIRST

    @property
    def is_timed(self) -> bool:
        """Whether the result holds times, which mean nothing on another host or after another boot."""
        return self in {StepKind.PROFILE, StepKind.RACE}


_CHECKS = frozenset({StepKind.SCREEN, StepKind.REST, StepKind.FRESH, StepKind.CLEAN})


class StepCache:
    """Results of the steps of one run.

    Args:
        run_dir: folder of the run.
        boot: names the host and its boot.
    """

    def __init__(self, run_dir: Path, boot: Callable[[], str] = boot_id) -> None:
        self._folder = run_dir / FOLDER
        self._ground, self._boot = "", boot

    def set_ground(self, ground: str) -> bool:
        """Set the ground of the steps to come, and remove those of another one; return whether there were."""
        self._ground = ground
        others = [path for path in self._folder.glob("*/") if path.name != ground]
        for path in others:
            shutil.rmtree(path)
        return bool(others)

    def get(self, result: Any, kind: StepKind, *key: object) -> Any:
        """Return the result of a step; `None` when it has to be made.

        Args:
            result: type of the result, or a union of dataclasses.
            kind: of the step.
            key: everything else that the result depends on, JSON values.
        """
        return read_value(result, self._path(kind, key))

    def put(self, result: Any, value: object, kind: StepKind, *key: object) -> None:
        """Store the result of a step: a kill does not lose it, a power cut may.

        Raises:
            OSError: it cannot be written.
        """
        write_atomically(self._path(kind, key), text_of(result, value))

    async def keep(self, result: Any, value: object, kind: StepKind, *key: object) -> None:
        """Store the costly result of a step, on the disk when this returns; cancelling does not undo it.

        Raises:
            OSError: it cannot be written.
        """
        work = partial(write_durably, self._path(kind, key), text_of(result, value))
        await anyio.to_thread.run_sync(work)

    def series(self, result: Any, kind: StepKind) -> list[Any]:
        """Return the results of the steps with the keys 0, 1, … up to the first that is missing."""
        found = (self.get(result, kind, number) for number in count())
        return list(takewhile(lambda one: one is not None, found))

    def count(self, kind: StepKind) -> int:
        """Return how many steps of a kind are stored."""
        return sum(1 for _ in self._folder.rglob(f"{kind}-*.json"))

    def _path(self, kind: StepKind, key: tuple[object, ...]) -> Path:
        folder = self._folder / self._ground if kind.is_grounded else self._folder
        name = name_of([*key, self._boot() if kind.is_timed else ""])
        return folder / f"{kind}-{name}.json"


def text_of(kind: Any, value: object) -> bytes:
    """Return the text of a file that holds a value of a type; see `read_value`."""
    text = _text(to_plain(value, kind))
    return f'{{"digest":"{digest_of(text.encode())}","value":{text}}}'.encode()


def read_value(kind: Any, path: Path) -> Any:
    """Return the value in a file; `None` when it is missing, damaged, or of another type."""
    try:
        data = json.loads(path.read_bytes())
        is_whole = data["digest"] == digest_of(_text(data["value"]).encode())
        return from_plain(kind, data["value"]) if is_whole else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _text(plain: object) -> str:
    return json.dumps(plain, separators=(",", ":"))
