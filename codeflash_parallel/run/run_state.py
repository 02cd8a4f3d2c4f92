"""State of a run on disk: its request (`run.json`), whether it is alive (`lock`), its end (`end.json`).

The process that makes the run holds the lock; the kernel releases it when the process dies. Results of the
run's steps are in its step cache, one JSON file each.

`resume` runs the run again with this cache: a step asks the cache first, then works and puts the result
there. No step asks whether the run was resumed. A file holds a value and the digest of its text; one that is
missing, damaged (a kill may have left half of it) or of another form is a miss, and the step is made again.

Steps that depend on the ground (interpreter, packages, environment, snapshot, our version: see
`BaselineManager.ground`) lie in a folder of that name. On another ground they are removed.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import count, takewhile
from pathlib import Path
from typing import Any

import anyio.to_thread

from codeflash_parallel.process.files import try_lock, wait_for_lock, write_atomically, write_durably
from codeflash_parallel.process.machine import boot_id
from codeflash_parallel.result.candidate_model import Submission, digest_of, name_of
from codeflash_parallel.result.codec import from_plain, to_plain
from codeflash_parallel.result.errors import CodeflashParallelError, EnvironmentFault, UsageError

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
    #: The checks of a candidate on another host have come to their end.
    JUDGED = "judged"
    #: A line profile.
    PROFILE = "profile"
    #: A comparison of a campaign, by the number of races before it.
    COMPARISON = "comparison"
    #: A race or a confirmation.
    RACE = "race"

    @property
    def is_grounded(self) -> bool:
        """Whether the result depends on the ground."""
        return self.is_timed or self in {*CHECKS, StepKind.JUDGED, StepKind.FIRST}

    @property
    def is_timed(self) -> bool:
        """Whether the result holds times, which mean nothing on another host or after another boot."""
        return self in {StepKind.PROFILE, StepKind.RACE}


#: Checks of a candidate.
CHECKS = (StepKind.SCREEN, StepKind.REST, StepKind.FRESH, StepKind.CLEAN)


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
        path = self._path(kind, key)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text_of(result, value))

    def text(self, kind: StepKind, *key: object) -> bytes:
        """Return the text of a step's file, for another step cache to `take`; empty when there is none."""
        try:
            return self._path(kind, key).read_bytes()
        except OSError:
            return b""

    def take(self, text: bytes, kind: StepKind, *key: object) -> None:
        """Store the text of a step that another step cache holds.

        Raises:
            OSError: it cannot be written.
        """
        write_atomically(self._path(kind, key), text)

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


class RaceMode(StrEnum):
    """Extent of a run."""

    #: Check, race, profile, refine.
    RACE = "race"
    #: Check and race.
    TIME = "time"
    #: Check only.
    CHECK = "check"


#: Version of the files; a run of a later one is refused, a change of meaning raises it.
SCHEMA = 2

#: Name of the file that says what was asked for; a run has begun when it is there.
REQUEST = "run.json"
_END, _LOCK = "end.json", "lock"


class Ending(StrEnum):
    """End of a run."""

    #: Every candidate was judged.
    FINISHED = "finished"
    #: It was interrupted, or failed, or its wall budget was spent: it can be resumed.
    OPEN = "open"


@dataclass(frozen=True, kw_only=True, slots=True)
class ProviderCommand:
    """A provider of a run.

    Attributes:
        argv: of a command; empty for a Python callable, which has to be given again.
        cwd: of the command.
    """

    argv: tuple[str, ...] = ()
    cwd: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunRequest:
    """Request of a run.

    Attributes:
        schema: of the run's files.
        version: of the program.
        repository: root of the user's repository.
        project: folder of the project in it.
        seed: of everything random.
        settings: by name, as `settings_document` wrote them.
        submissions: candidates that were handed in at once, under their names in the run.
        is_complete: whether there are no others: they do not come one by one.
    """

    schema: int
    run_id: str
    version: str
    repository: str
    project: str
    mode: RaceMode
    seed: int
    settings: Mapping[str, Any]
    submissions: tuple[Submission, ...] = ()
    is_complete: bool = True
    repairer: ProviderCommand | None = None
    refiner: ProviderCommand | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RunEnd:
    """The last end of a run.

    Attributes:
        code: why, where it is not finished.
        message: the same for people.
    """

    ending: Ending
    code: str = ""
    message: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunState:
    """State of a run, as its files have it.

    Attributes:
        submissions: all candidates that were handed in, in order.
        is_complete: whether the source of candidates had ended.
        checked: how many candidates have been checked.
        end: `None`: the run is alive, or was killed.
    """

    request: RunRequest
    submissions: tuple[Submission, ...]
    is_complete: bool
    checked: int
    end: RunEnd | None

    @property
    def is_finished(self) -> bool:
        """Whether there is nothing to resume."""
        return self.end is not None and self.end.ending is Ending.FINISHED

    @property
    def progress(self) -> str:
        """Number of candidates checked so far, a clause."""
        return f"{self.checked} of {len(self.submissions)} candidates had been checked"


def read_state(run_dir: Path) -> RunState:
    """Return the state of a run, which may be alive.

    Raises:
        UsageError: `NO_JOURNAL`: there is no request that could be read.
        EnvironmentFault: `BAD_JOURNAL` or `NEWER_JOURNAL`.
    """
    request, cache = _request(run_dir), StepCache(run_dir)
    return RunState(
        request=request,
        submissions=(*request.submissions, *cache.series(Submission, StepKind.SUBMITTED)),
        is_complete=request.is_complete or cache.count(StepKind.SOURCE_END) > 0,
        checked=cache.count(StepKind.SCREEN),
        end=read_value(RunEnd, run_dir / _END),
    )


def _request(run_dir: Path) -> RunRequest:
    path = run_dir / REQUEST
    if not path.exists():
        message = f"Run {run_dir.name} has no {REQUEST}: an older version wrote it, or it had not begun."
        raise UsageError("NO_JOURNAL", message, "Evaluate again.")
    plain = read_value(Mapping[str, Any], path)
    schema = plain.get("schema") if plain else None
    if isinstance(schema, int) and schema > SCHEMA:
        message = f"{REQUEST} of run {run_dir.name} has schema {schema}: a later version wrote it."
        raise EnvironmentFault("NEWER_JOURNAL", message, "Resume it with that version.")
    request: RunRequest | None = read_value(RunRequest, path)
    if request is None:
        raise EnvironmentFault("BAD_JOURNAL", f"{path} is damaged.", "Evaluate again.")
    return request


def write_request(run_dir: Path, request: RunRequest) -> None:
    """Write the request, on the disk when this returns; a run that is resumed keeps its own.

    Raises:
        OSError: it cannot be written.
    """
    if not (run_dir / REQUEST).exists():
        write_durably(run_dir / REQUEST, text_of(RunRequest, request))


def write_end(run_dir: Path, end: RunEnd) -> None:
    """Write the end of a run, on the disk when this returns.

    Raises:
        OSError: it cannot be written.
    """
    write_durably(run_dir / _END, text_of(RunEnd, end))


def is_alive(run_dir: Path) -> bool:
    """Return whether a process holds a run."""
    if not (run_dir / _LOCK).exists():
        return False
    lock = try_lock(run_dir / _LOCK)
    if lock is not None:
        lock.release()
    return lock is None


@contextmanager
def begun_run(run_dir: Path) -> Iterator[None]:
    """Make the folder of a new run and hold it; a run that fails before its first check leaves nothing.

    Raises:
        OSError: it cannot be written.
    """
    run_dir.mkdir(parents=True)
    with _held(run_dir):
        try:
            yield
        except CodeflashParallelError as error:
            if StepCache(run_dir).count(StepKind.SCREEN) or (run_dir / "result.json").exists():
                _note_failure(run_dir, error)
            else:
                shutil.rmtree(run_dir, ignore_errors=True)
            raise


@contextmanager
def resumed_run(run_dir: Path, must_fit: Callable[[RunState], None]) -> Iterator[RunState]:
    """Hold the folder of a run that has ended before it was finished.

    Args:
        must_fit: raises when the caller cannot resume such a run.

    Raises:
        UsageError: `RUN_ALIVE`, another process is at it; `RUN_FINISHED`; `NO_JOURNAL`.
        EnvironmentFault: `BAD_JOURNAL` or `NEWER_JOURNAL`.
    """
    _request(run_dir)
    with _held(run_dir):
        state = read_state(run_dir)
        if state.is_finished:
            message = f"Run {run_dir.name} is finished: there is nothing to go on with."
            raise UsageError("RUN_FINISHED", message, f"See `show {run_dir.name}`.")
        must_fit(state)
        _remove_drafts(run_dir)
        (run_dir / _END).unlink(missing_ok=True)
        try:
            yield state
        except CodeflashParallelError as error:
            _note_failure(run_dir, error)
            raise


@contextmanager
def _held(run_dir: Path) -> Iterator[None]:
    lock = wait_for_lock(run_dir / _LOCK, 0.0)
    if lock is None:
        message = f"Run {run_dir.name} is still going on in another process."
        raise UsageError("RUN_ALIVE", message, "Wait for it, or end it.")
    with lock:
        yield


def _note_failure(run_dir: Path, error: CodeflashParallelError) -> None:
    with suppress(OSError):  # the disk is full: without an end the run counts as killed
        write_end(run_dir, RunEnd(ending=Ending.OPEN, code=error.code, message=error.message))


def _remove_drafts(run_dir: Path) -> None:
    """Remove files that were being written when the process died (`process.files.write_atomically`)."""
    for draft in run_dir.rglob(".*.*-*"):
        draft.unlink(missing_ok=True)
