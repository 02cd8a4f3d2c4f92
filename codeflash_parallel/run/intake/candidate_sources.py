"""What is still being produced: entered as it comes, and looked into without being used up."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Sequence
from itertools import chain, islice

from codeflash_parallel.result.candidate_model import Submission
from codeflash_parallel.run.state.ledger import CandidateEntry

Entries = AsyncIterable[CandidateEntry] | Iterable[CandidateEntry]


Enter = Callable[[Submission], CandidateEntry]


async def entering(
    enter: Enter, source: AsyncIterable[Submission], at_end: Callable[[], None]
) -> AsyncIterator[CandidateEntry]:
    """Enter submissions as they come, and tell when there are no more."""
    async for submission in source:
        yield enter(submission)
    at_end()


def entered(
    enter: Enter, source: Iterable[Submission], at_end: Callable[[], None]
) -> Iterator[CandidateEntry]:
    """Enter submissions as they are asked for, and tell when there are no more."""
    for submission in source:
        yield enter(submission)
    at_end()


async def peek(source: Entries) -> tuple[Sequence[CandidateEntry], Entries]:
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


async def _at_most_one(iterator: AsyncIterator[CandidateEntry]) -> AsyncIterator[CandidateEntry]:
    try:
        yield await anext(iterator)
    except StopAsyncIteration:
        return


async def _chained(
    first: Iterable[CandidateEntry], rest: AsyncIterator[CandidateEntry]
) -> AsyncIterator[CandidateEntry]:
    for entry in first:
        yield entry
    async for entry in rest:
        yield entry
