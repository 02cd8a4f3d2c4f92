"""Evaluators that stay open between calls, on an event loop in a thread of its own.

The background process of `--keep-warm` has such a thread, and a program that calls `evaluate` with the
setting `keep_warm`. A kept evaluator serves one place: current folder, project and settings. Every evaluator
sees a changed tree; for other changes (`Surroundings`) it is opened anew.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self, TypeVar

import anyio
import anyio.from_thread
import anyio.to_thread
from anyio.abc import TaskGroup

from codeflash_parallel.config.settings import Settings
from codeflash_parallel.process.machine import read_machine
from codeflash_parallel.result.errors import EnvironmentFault, UsageError

if TYPE_CHECKING:
    from codeflash_parallel.run.evaluator import Evaluator
    from codeflash_parallel.run.setup.surroundings import Surroundings

#: Evaluators that are kept at most: those of the projects that one user works on at a time.
MOST = 3
#: Share of the memory that is there without them which all kept evaluators may hold.
_MEMORY_SHARE = 0.25
#: Seconds after which an evaluator that is not used is closed.
IDLE_S = 600.0
#: Seconds between two looks for idle ones.
_LOOK_S = 30.0
#: Faults that say nothing of the evaluator: the project's tests are to blame.
_OF_THE_PROJECT = frozenset({"RED_BASELINE", "NO_STABLE_TEST"})
#: Work that is cancelled has so many seconds to kill its processes.
_CANCEL_S = 30.0

_T = TypeVar("_T")
Make = Callable[[Path, Settings], "Evaluator"]


class Place(NamedTuple):
    """Place that an evaluator is kept for: relative paths of settings depend on the current folder.

    Attributes:
        settings: all of them as text, for some may be lists, which have no hash.
    """

    folder: Path
    project: Path
    settings: str


@dataclass(kw_only=True, slots=True)
class KeptEvaluator:
    """An evaluator and the task that holds it open.

    Attributes:
        surroundings: as they were when it was opened.
        users: calls that have it now.
        used_s: when it was last given back, on the monotonic clock.
        is_sound: nothing has gone wrong in it.
        unwanted: set when it is to be closed.
        error: why it could not be opened.
    """

    evaluator: Evaluator
    surroundings: Surroundings | None = None
    users: int = 0
    used_s: float = field(default_factory=time.monotonic)
    is_sound: bool = True
    opened: anyio.Event = field(default_factory=anyio.Event)
    unwanted: anyio.Event = field(default_factory=anyio.Event)
    error: Exception | None = None

    async def ready(self) -> Evaluator:
        """Return the evaluator once it is open; raise why it cannot be opened."""
        await self.opened.wait()
        if self.error is not None:
            raise self.error
        return self.evaluator


class KeptEvaluators:
    """Kept evaluators of one event loop; an async context manager, whose end closes them.

    Invariant: at most `MOST` are kept, those that were used last.

    Args:
        make: makes an evaluator of a project and settings.
        note: receives one line whenever one is opened or closed, with the reason.
    """

    def __init__(self, make: Make, note: Callable[[str], None]) -> None:
        self._make, self._note = make, note
        self._kept: dict[Place, KeptEvaluator] = {}  # the one that was used last comes last
        self._stack = AsyncExitStack()
        self._tasks: TaskGroup

    async def __aenter__(self) -> Self:
        self._tasks = await self._stack.enter_async_context(anyio.create_task_group())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for place in tuple(self._kept):
            self._drop(place)
        await self._stack.__aexit__(kind, error, trace)

    @asynccontextmanager
    async def lend(self, project: Path, settings: Settings) -> AsyncIterator[Evaluator]:
        """Give an evaluator, open, for a block; one whose block is cancelled, or has a defect, is not kept.

        Raises:
            UsageError, EnvironmentFault: it cannot be opened.
        """
        place = Place(Path.cwd(), project, repr(settings))
        kept = await self._reusable(place) or self._begin(place, settings)
        kept.users += 1
        try:
            yield await kept.ready()
        except UsageError:
            raise
        except EnvironmentFault as fault:
            kept.is_sound = kept.is_sound and fault.code in _OF_THE_PROJECT
            raise
        except BaseException:
            kept.is_sound = False
            raise
        finally:
            kept.users, kept.used_s = kept.users - 1, time.monotonic()
            if not kept.is_sound or kept.evaluator.was_interrupted:
                self._drop(place, kept)

    async def _reusable(self, place: Place) -> KeptEvaluator | None:
        """Return the evaluator of a place, if it may be used for one more call."""
        kept = self._kept.get(place)
        if kept is None:
            self._note(f"opens {place.project.absolute()}: {self._why_new(place)}")
            return None
        await kept.opened.wait()
        if kept.surroundings is not None:
            now = await anyio.to_thread.run_sync(kept.evaluator.surroundings)
            why = kept.surroundings.change_to(now)
            if not why and kept.is_sound:
                self._kept[place] = self._kept.pop(place)
                return kept
            self._note(f"opens {place.project.absolute()} anew: {why}")
        self._drop(place, kept)
        return None

    def _why_new(self, place: Place) -> str:
        known = any(other[:2] == place[:2] for other in self._kept)
        return "other settings" if known else "it is not open"

    def _begin(self, place: Place, settings: Settings) -> KeptEvaluator:
        kept = KeptEvaluator(evaluator=self._make(place.project, settings))
        self._kept[place] = kept
        self._tasks.start_soon(self._hold, kept)
        self._drop_oldest(len(self._kept) - MOST)
        return kept

    async def _hold(self, kept: KeptEvaluator) -> None:
        """Open an evaluator, and close it when it is unwanted: in one task, as its task groups need it."""
        try:
            async with kept.evaluator:
                kept.surroundings = await anyio.to_thread.run_sync(kept.evaluator.surroundings)
                kept.opened.set()
                await kept.unwanted.wait()
        except Exception as error:  # noqa: BLE001 - raised where it is lent
            kept.error, kept.is_sound = error, False
        finally:
            kept.opened.set()

    def _drop(self, place: Place, only: KeptEvaluator | None = None) -> None:
        """Keep the evaluator of a place no longer; it is closed once no call has it."""
        kept = only or self._kept[place]
        if self._kept.get(place) is kept:
            del self._kept[place]
        kept.is_sound = False
        if not kept.users:
            kept.unwanted.set()

    def _drop_oldest(self, count: int) -> None:
        for place in [place for place, kept in self._kept.items() if not kept.users][: max(0, count)]:
            self._note(f"closes {place.project.absolute()}: {MOST} others are open")
            self._drop(place)

    async def trim(self) -> None:
        """Close what has been idle for too long, and the oldest while all together hold too much memory."""
        if any(kept.users for kept in self._kept.values()):
            return  # something may be timed
        idle = time.monotonic() - IDLE_S
        for place, kept in tuple(self._kept.items()):
            if not kept.users and kept.used_s < idle:
                self._note(f"closes {place.project.absolute()}: not used for {IDLE_S:.0f} s")
                self._drop(place)
        held = {p: kept.evaluator.memory_bytes for p, kept in self._kept.items() if not kept.users}
        allowed = _MEMORY_SHARE * (read_machine().memory_bytes + sum(held.values()))
        for place in tuple(held):
            if sum(held.values()) > allowed:
                self._note(f"closes {place.project.absolute()}: too much memory, {held.pop(place) >> 20} MiB")
                self._drop(place)


class EvaluatorThread:
    """A thread with an event loop and kept evaluators; they are closed when the main thread has ended.

    Args:
        make: makes an evaluator.
        note: as in `KeptEvaluators`.
        backend: event loop, `asyncio` or `trio`.
    """

    def __init__(
        self, make: Make, note: Callable[[str], None] = lambda _line: None, backend: str = "asyncio"
    ) -> None:
        self._stack = ExitStack()
        self._portal = self._stack.enter_context(anyio.from_thread.start_blocking_portal(backend))
        kept = self._portal.wrap_async_context_manager(KeptEvaluators(make, note))
        self._kept = self._stack.enter_context(kept)
        self.lend = self._kept.lend
        self._closed = threading.Event()
        threading.Thread(target=self._look_after, name="kept evaluators").start()

    def run(self, work: Callable[[], Awaitable[_T]]) -> _T:
        """Run work on the event loop and return its result; an interrupt cancels it and waits."""
        ended, is_interrupted = threading.Event(), threading.Event()
        scopes: list[anyio.CancelScope] = []

        async def wrapped() -> _T:
            try:
                with anyio.CancelScope() as scope:
                    scopes.append(scope)
                    if is_interrupted.is_set():
                        scope.cancel()
                    return await work()
                raise InterruptedError  # which nobody sees: the caller has left
            finally:
                ended.set()

        try:  # an interrupt may come before there is a future
            return self._portal.start_task_soon(wrapped).result()
        except BaseException:
            is_interrupted.set()
            with suppress(RuntimeError):  # the loop is being ended, and all work with it
                self._portal.start_task_soon(_cancel, scopes)
                ended.wait(_CANCEL_S)
            raise

    def trim(self) -> None:
        """Close what has been idle for too long or holds too much memory."""
        self._portal.call(self._kept.trim)

    def close(self) -> None:
        """Close all evaluators and end the loop; again is harmless."""
        self._closed.set()
        self._stack.close()

    def _look_after(self) -> None:
        # Not an `atexit` function: those come after the threads of the loop have been waited for, in vain.
        main = threading.main_thread()
        while main.is_alive() and not self._closed.is_set():
            main.join(_LOOK_S)
            with suppress(RuntimeError):  # it is being closed
                self.trim()
        self.close()


def _cancel(scopes: Iterable[anyio.CancelScope]) -> None:
    for scope in scopes:
        scope.cancel()


#: Threads of this process for the library, by event loop.
_THREADS: dict[str, EvaluatorThread] = {}
_MAKING = threading.Lock()
# A child has none of its parent's threads.
os.register_at_fork(after_in_child=_THREADS.clear)


def library_thread(make: Make, backend: str) -> EvaluatorThread:
    """Return the thread of this process that keeps the evaluators of calls of the library."""
    with _MAKING:
        if backend not in _THREADS:
            _THREADS[backend] = EvaluatorThread(make, backend=backend)
        return _THREADS[backend]
