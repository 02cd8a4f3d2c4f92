"""Asks providers in threads of one owned `ThreadPoolExecutor`, with a deadline on each request.

A provider that raises, answers nonsense or hangs costs its own request only. One that is past its deadline is
abandoned: its answer is ignored and another thread takes its place; once `MAX_ABANDONED` hang at a time,
providers are off for the rest of the run. Leaving the broker never waits for a provider. The interpreter,
however, joins the threads of every `ThreadPoolExecutor` when it exits: a program that gives us a Python
callable which never returns can only be ended by a signal. Our own command line does not have that problem:
its providers are child processes, which are killed when the broker is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio

from codeflash_parallel.repair.command_providers import CommandRefiner, CommandRepairer, ProviderProcesses
from codeflash_parallel.repair.provider_protocol import (
    Answer,
    Outcome,
    ProviderAnswers,
    ProviderFailure,
    RefinementRequest,
    Refiner,
    Repairer,
    RepairRequest,
    checked_answers,
)
from codeflash_parallel.result.candidate.candidate_model import CandidateId

#: Requests that are worked on at once: providers wait for networks, so more than cores, less than a flood.
WORKERS = 4
#: Hanging providers at a time that are put up with; each one keeps a thread.
MAX_ABANDONED = 4
#: What a command provider, which has a deadline of its own, gets on top to be killed and to say so.
_KILL_GRACE_S = 5.0
#: How much of a provider's own words is kept in a reason.
_REASON_CHARS = 1000

_Answers = tuple[Answer, ...]
_Wake = Callable[[Callable[[], object]], object]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Provider:
    name: str
    call: Callable[[Any], object]
    deadline_s: float


class Broker:
    """Made by `open_broker`; each caller awaits the outcome of its own request."""

    def __init__(
        self,
        executor: ThreadPoolExecutor,
        repairer: _Provider | None,
        refiner: _Provider | None,
        warn: Callable[[str], None],
    ) -> None:
        self._executor = executor
        self._repairer = repairer
        self._refiner = refiner
        self._warn = warn
        self._places = anyio.Semaphore(WORKERS)
        self._wake = _wake_here()
        self._abandoned: list[Future[_Answers]] = []
        self._off = False

    @property
    def repairs(self) -> bool:
        """Whether there is a repairer, and providers are not off."""
        return self._repairer is not None and not self._off

    @property
    def refines(self) -> bool:
        """Whether there is a refiner, and providers are not off."""
        return self._refiner is not None and not self._off

    async def request_repair(self, request: RepairRequest) -> Outcome:
        """Ask for repairs of one candidate; cancelling gives the request up."""
        if self._repairer is None:
            return ProviderFailure(reason="There is no repairer.")
        return await self._ask(self._repairer, request, [request.candidate])

    async def request_refinement(self, requests: Sequence[RefinementRequest]) -> Outcome:
        """Ask for refinements of a batch; cancelling gives the request up."""
        if self._refiner is None:
            return ProviderFailure(reason="There is no refiner.")
        if not requests:
            return ProviderAnswers(answers=())
        return await self._ask(self._refiner, tuple(requests), [r.candidate for r in requests])

    async def _ask(self, provider: _Provider, question: object, parents: Sequence[CandidateId]) -> Outcome:
        async with self._places:
            if self._off:
                return ProviderFailure(reason="Providers are off: too many requests never came back.")
            try:
                future = self._executor.submit(_answers, provider.call, question, parents)
            except RuntimeError as error:  # no further thread can be started
                return ProviderFailure(reason=f"The {provider.name} could not be asked: {error}.")
            try:
                await self._settled(future, provider.deadline_s)
            finally:
                future.cancel()
            if future.done():
                return _outcome(provider, future)
            self._abandon(future)
            return ProviderFailure(
                reason=f"The {provider.name} gave no answer within {provider.deadline_s:g} s."
            )

    async def _settled(self, future: Future[_Answers], deadline_s: float) -> None:
        """Wait until a future is done, or its deadline."""
        done = anyio.Event()

        def tell(_: object) -> None:
            # the loop may be over when an abandoned provider comes back at last
            with contextlib.suppress(RuntimeError):
                self._wake(done.set)

        future.add_done_callback(tell)
        with anyio.move_on_after(deadline_s):
            await done.wait()

    def _abandon(self, future: Future[_Answers]) -> None:
        """Count a provider that hangs: its thread is replaced by a spare one while there are any."""
        self._abandoned = [f for f in (*self._abandoned, future) if not f.done()]
        if len(self._abandoned) >= MAX_ABANDONED and not self._off:
            self._off = True
            self._warn(f"{MAX_ABANDONED} requests hang; providers are not asked any more in this run.")


@asynccontextmanager
async def open_broker(
    repairer: Repairer | None = None,
    refiner: Refiner | None = None,
    *,
    deadline_s: float,
    warn: Callable[[str], None] = lambda _message: None,
) -> AsyncIterator[Broker]:
    """Open a broker; leaving it gives up what is unanswered, kills commands, and waits for nobody.

    Args:
        repairer: answers repair requests.
        refiner: answers batches of refinement requests.
        deadline_s: wall seconds that one request may take; command providers have their own.
        warn: told when providers are switched off.
    """
    children = ProviderProcesses()
    executor = ThreadPoolExecutor(WORKERS + MAX_ABANDONED, thread_name_prefix="codeflash-provider")
    try:
        yield Broker(
            executor,
            _bound("repairer", repairer, children, deadline_s),
            _bound("refiner", refiner, children, deadline_s),
            warn,
        )
    finally:
        children.close()
        executor.shutdown(wait=False, cancel_futures=True)


def _bound(
    name: str, provider: Callable[[Any], object] | None, children: ProviderProcesses, deadline_s: float
) -> _Provider | None:
    """Return how a provider is called; commands become children of the broker."""
    if provider is None:
        return None
    if isinstance(provider, CommandRepairer | CommandRefiner):
        limit_s = provider.deadline_s + _KILL_GRACE_S
        return _Provider(name=name, call=partial(provider.answer, children), deadline_s=limit_s)
    return _Provider(name=name, call=provider, deadline_s=deadline_s)


def _answers(call: Callable[[Any], object], question: object, parents: Sequence[CandidateId]) -> _Answers:
    """Call a provider and check what it returns, in its thread: even listing its answers may take forever."""
    return checked_answers(call(question), parents)


def _outcome(provider: _Provider, future: Future[_Answers]) -> Outcome:
    if future.cancelled():
        return ProviderFailure(reason=f"The {provider.name} was given up.")
    error = future.exception()
    if error is None:
        return ProviderAnswers(answers=future.result())
    said = "".join(traceback.format_exception_only(error)).strip()[:_REASON_CHARS]
    return ProviderFailure(reason=f"The {provider.name} failed: {said}")


def _wake_here() -> _Wake:
    """Return what makes the running event loop call something, from any thread and without waiting for it."""
    try:
        return asyncio.get_running_loop().call_soon_threadsafe
    except RuntimeError:
        from trio.lowlevel import current_trio_token

        return current_trio_token().run_sync_soon
