"""The journal of one run on disk, and what the run knows from it.

Events are appended as they happen, a line each, by one process at a time: a lock that the kernel gives back
when its holder dies tells whether the run is alive. A line reaches the kernel before anything follows from
it, so that a kill loses nothing; those that are costly to repeat are forced to the disk, too.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio.to_thread

from codeflash_parallel import __version__
from codeflash_parallel.result.errors import EnvironmentFault, UsageError
from codeflash_parallel.run.store.journal_events import Checked, Happened, Resumed
from codeflash_parallel.run.store.journal_lines import JournalContent, NewerJournal, line_of, read_lines
from codeflash_parallel.run.store.journal_state import JournalState, recollect

#: Name of the file in a run's folder.
NAME = "journal.jsonl"

_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC


class Journal:
    """The journal of a run that goes on in this process. Made by `begin` or `go_on`; `close` it.

    Attributes:
        known: what an earlier process found out; `None` in a run that begins.
        has_findings: something is in it that would have to be found out again.
    """

    def __init__(self, handle: int, known: JournalState | None, draft: Path | None = None) -> None:
        self.known = known
        self._draft = draft
        self._handle = handle
        self._length = os.fstat(handle).st_size
        self.has_findings = known is not None

    @classmethod
    def begin(cls, run_dir: Path) -> Journal:
        """Make the journal of a new run; it gets its name with the first events, all of them or none.

        Raises:
            OSError: it cannot be written, or is there already.
        """
        run_dir.mkdir(parents=True, exist_ok=True)
        draft = run_dir / f".{NAME}-draft"
        handle = os.open(draft, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(handle, fcntl.LOCK_EX)  # at most somebody looks at this moment whether it is held
        return cls(handle, None, draft)

    @classmethod
    def go_on(cls, run_dir: Path, must_fit: Callable[[JournalState], None]) -> Journal:
        """Open the journal of a run that ended before it was finished, and take what it knows.

        Args:
            must_fit: raises when the caller cannot go on with such a run.

        Raises:
            UsageError: `RUN_ALIVE`, another process is at it; `RUN_FINISHED`; `NO_JOURNAL`.
            EnvironmentFault: `BAD_JOURNAL` or `NEWER_JOURNAL`.
        """
        handle = _locked(run_dir)
        try:
            read = _sound(run_dir, handle)
            known = _unfinished(recollect(read.events))
            must_fit(known)
            os.ftruncate(handle, read.good_bytes)  # what was torn would spoil the next line
            _remove_drafts(run_dir)
            journal = cls(handle, known)
            journal.note(Resumed(version=__version__))
        except BaseException:
            os.close(handle)
            raise
        return journal

    def note(self, *events: Happened) -> None:
        """Append events: all of them, or none.

        Raises:
            OSError: the disk is full; the journal is what it was.
        """
        data = b"".join(map(line_of, events))
        try:
            written = os.write(self._handle, data)
            while written < len(data):
                written += os.write(self._handle, data[written:])
        except OSError:
            os.ftruncate(self._handle, self._length)
            raise
        self._length += len(data)
        if self._draft is not None:  # a kill in the middle of a long write would leave some candidates out
            self._draft.rename(self._draft.with_name(NAME))
            self._draft = None
        self.has_findings = self.has_findings or any(isinstance(event, Checked) for event in events)

    async def keep(self, *events: Happened) -> None:
        """Append events and wait until they are on the disk; cancelling does not undo it.

        Raises:
            OSError: the disk is full, or failed.
        """
        self.note(*events)
        await anyio.to_thread.run_sync(partial(os.fdatasync, self._handle))

    def close(self) -> None:
        """Let others have it; again is harmless."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def forget(self) -> None:
        """Let findings count for nothing any more, because they were made under other circumstances."""
        if self.known is not None:
            self.known = self.known.without_findings()


def _unfinished(known: JournalState) -> JournalState:
    name = known.begun.run_id
    if known.is_finished:
        raise UsageError(
            "RUN_FINISHED", f"Run {name} is finished: there is nothing to go on with.", f"See `show {name}`."
        )
    if not known.is_whole:
        got, expected = len(known.submissions), known.begun.expected
        message = f"Run {name} was killed when {got} of its {expected} candidates had been written down."
        raise EnvironmentFault("BAD_JOURNAL", message, "Evaluate again.")
    return known


def is_alive(run_dir: Path) -> bool:
    """Say whether a process is at a run."""
    try:
        os.close(_locked(run_dir))
    except UsageError as error:
        return error.code == "RUN_ALIVE"
    return False


def look_into(run_dir: Path) -> JournalState:
    """Return what the journal of a run says, which may be going on.

    Raises:
        UsageError: `NO_JOURNAL`.
        EnvironmentFault: `BAD_JOURNAL` or `NEWER_JOURNAL`.
    """
    try:
        handle = os.open(run_dir / NAME, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise _none(run_dir, error) from error
    try:
        return recollect(_sound(run_dir, handle).events)
    finally:
        os.close(handle)


def _locked(run_dir: Path) -> int:
    try:
        handle = os.open(run_dir / NAME, _FLAGS)
    except OSError as error:
        raise _none(run_dir, error) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(handle)
        message = f"Run {run_dir.name} is still going on in another process."
        raise UsageError("RUN_ALIVE", message, "Wait for it, or end it.") from error
    return handle


def _none(run_dir: Path, error: OSError) -> UsageError:
    return UsageError(
        "NO_JOURNAL",
        f"Run {run_dir.name} has no journal that could be read ({error.strerror}).",
        "Evaluate again.",
    )


def _sound(run_dir: Path, handle: int) -> JournalContent:
    """Return what a journal says, if all of it can be believed."""
    try:
        read = read_lines(_whole(handle))
    except NewerJournal as error:
        raise EnvironmentFault(
            "NEWER_JOURNAL",
            f"The journal of run {run_dir.name} has schema {error.args[0]}: a later version wrote it.",
            "Resume it with that version.",
        ) from error
    if read.damage:
        raise EnvironmentFault(
            "BAD_JOURNAL",
            f"The journal {run_dir / NAME} cannot be believed: {read.damage}.",
            "Evaluate again.",
        )
    return read


def _whole(handle: int) -> bytes:
    parts: list[bytes] = []
    while part := os.pread(handle, 1 << 20, sum(map(len, parts))):
        parts.append(part)
    return b"".join(parts)


def _remove_drafts(run_dir: Path) -> None:
    """Remove files that were being written when the process died (`process.files.write_atomically`)."""
    for draft in _drafts((run_dir, run_dir / "races", run_dir / "diffs")):
        with suppress(OSError):
            draft.unlink()


def _drafts(folders: Iterable[Path]) -> list[Path]:
    return [path for folder in folders for path in folder.glob(".*.*-*") if path.is_file()]
