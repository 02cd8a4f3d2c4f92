"""What is still being produced: entered as it comes, and looked into without being used up."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence
from itertools import chain, islice

from codeflash_parallel.engine.ledger import Entry, Ledger
from codeflash_parallel.model.candidate import Submission

Entries = AsyncIterable[Entry] | Iterable[Entry]


async def entering(ledger: Ledger, source: AsyncIterable[Submission]) -> AsyncIterator[Entry]:
    """Enter submissions as they come."""
    async for submission in source:
        yield ledger.add(submission)


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
