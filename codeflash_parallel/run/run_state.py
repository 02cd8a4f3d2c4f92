"""State of a run on disk: its request (`run.json`), whether it is alive (`lock`), its end (`end.json`).

The process that makes the run holds the lock; the kernel releases it when the process dies. Results of the
run's steps are in its step cache.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from codeflash_parallel.process.files import try_lock, wait_for_lock, write_durably
from codeflash_parallel.result.candidate_model import Submission
from codeflash_parallel.result.errors import CodeflashParallelError, EnvironmentFault, UsageError
from codeflash_parallel.run.step_cache import StepCache, StepKind, read_value, text_of


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
