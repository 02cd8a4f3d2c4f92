"""Results of an evaluation as they come."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from codeflash_parallel.result.result_model import CandidateResult, RunResult


@dataclass(slots=True)
class ResultStream:
    """Results as they come; `run` is the whole once the stream is exhausted."""

    _results: MemoryObjectReceiveStream[CandidateResult]
    run: RunResult | None = None

    def __aiter__(self) -> AsyncIterator[CandidateResult]:
        return self

    async def __anext__(self) -> CandidateResult:
        try:
            return await self._results.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None
