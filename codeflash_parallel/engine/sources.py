"""What is still being produced: entered as it comes, and looked into without being used up."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Sequence
from itertools import chain, islice

from codeflash_parallel.engine.ledger import Entry
from codeflash_parallel.model.candidate import Submission

Entries = AsyncIterable[Entry] | Iterable[Entry]


Enter = Callable[[Submission], Entry]


async def entering(
    enter: Enter, source: AsyncIterable[Submission], at_end: Callable[[], None]
) -> AsyncIterator[Entry]:
    """Enter submissions as they come, and tell when there are no more."""
    async for submission in source:
        yield enter(submission)
    at_end()


def entered(enter: Enter, source: Iterable[Submission], at_end: Callable[[], None]) -> Iterator[Entry]:
    """Enter submissions as they are asked for, and tell when there are no more."""
    for submission in source:
        yield enter(submission)
    at_end()


async def peek(source: Entries) -> tuple[Sequence[Entry], Entries]:
    """Return what is there; of a source that is still producing, the first, and put it back in front."""
    if isinstance(source, Sequence):
        return source, source
    if isinstance(source, AsyncIterable):
        iterator = aiter(source)
        first = [entry async for entry in _at_most_one(iterator)]
        return first, _chained(first, iterator)
    plain = iter(source)
    first = list(islice(plain, 1))
    return first, chain(first, plain)


async def _at_most_one(iterator: AsyncIterator[Entry]) -> AsyncIterator[Entry]:
    try:
        yield await anext(iterator)
    except StopAsyncIteration:
        return


async def _chained(first: Iterable[Entry], rest: AsyncIterator[Entry]) -> AsyncIterator[Entry]:
    for entry in first:
        yield entry
    async for entry in rest:
        yield entry
