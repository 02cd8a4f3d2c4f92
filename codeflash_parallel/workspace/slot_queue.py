"""The line of those who wait for slots: served strictly in order, each with one slot or with all of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Generic, TypeVar

import anyio

_T = TypeVar("_T")


class _Waiter(Generic[_T]):
    """Somebody in line. `every`: wants all slots there are, else one."""

    __slots__ = ("event", "every", "granted")

    def __init__(self, *, every: bool) -> None:
        self.every = every
        self.granted: list[_T] = []
        self.event = anyio.Event()


class SlotQueue(Generic[_T]):
    """Hands slots out.

    Args:
        slots: all there are, free; whoever is served gets those that come first.
    """

    def __init__(self, slots: Iterable[_T]) -> None:
        self._free = deque(slots)
        self._size = len(self._free)
        self._waiting: deque[_Waiter[_T]] = deque()
        self._taken: set[_T] = set()

    @property
    def size(self) -> int:
        """How many slots there are, free or taken."""
        return self._size

    @property
    def taken(self) -> frozenset[_T]:
        """What has been handed out and has not come back."""
        return frozenset(self._taken)

    async def wait_for_one(self) -> list[_T]:
        """Wait for a slot, and return it in a list; an empty list: there are none any more."""
        return await self._wait(_Waiter(every=False))

    async def wait_for_all(self) -> list[_T]:
        """Wait for all slots; an empty list: there are none any more."""
        return await self._wait(_Waiter(every=True))

    async def _wait(self, waiter: _Waiter[_T]) -> list[_T]:
        self._waiting.append(waiter)
        self._serve()
        try:
            await waiter.event.wait()
        except BaseException:
            self._leave(waiter)
            raise
        return waiter.granted

    def _leave(self, waiter: _Waiter[_T]) -> None:
        """Undo a wait that was cancelled, before or after it was served; the slots were not used."""
        if waiter in self._waiting:
            self._waiting.remove(waiter)
        self._free.extendleft(reversed(waiter.granted))
        self._taken.difference_update(waiter.granted)
        self._serve()

    def _serve(self) -> None:
        """Serve in order: nobody overtakes one who waits for all slots."""
        while self._waiting:
            needed = self._size if self._waiting[0].every else 1
            if self._size and len(self._free) < needed:
                return
            waiter = self._waiting.popleft()
            if self._size:
                waiter.granted = [self._free.popleft() for _ in range(needed)]
                self._taken.update(waiter.granted)
            waiter.event.set()

    def give_up(self, slot: _T) -> None:
        """Say that whoever had a slot has it no longer; nobody else has it yet."""
        self._taken.discard(slot)

    def put_back(self, slot: _T) -> None:
        """Make a slot the first to be handed out."""
        self._free.appendleft(slot)
        self._serve()

    def add_taken(self, slot: _T) -> None:
        """Count with one slot more, which somebody has."""
        self._size += 1
        self._taken.add(slot)

    def lose_one(self) -> None:
        """Count with one slot less."""
        self._size -= 1
        self._serve()
