"""Requests to providers: what the budget allows, and answers with a deadline on each request.

A provider is called on a thread of one `ThreadPoolExecutor`. One that raises, gives a malformed answer or
hangs costs that request only. Past its deadline it is abandoned: its answer is ignored and another thread
takes its place; after `MAX_ABANDONED` such requests, providers are off for the rest of the run. Leaving the
broker never waits for a provider. The interpreter, however, joins worker threads when it exits: a program
that gives us a Python callable which never returns can only be ended by a signal. The providers of our own
command line are child processes, which are killed when the broker is left.
"""

from __future__ import annotations

import traceback
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import anyio
import anyio.to_thread

from codeflash_parallel.config.settings import Settings
from codeflash_parallel.repair.command_providers import CommandProvider, ProviderProcesses
from codeflash_parallel.repair.provider_protocol import (
    Outcome,
    ProviderAnswers,
    ProviderFailure,
    RefinementRequest,
    Refiner,
    Repairer,
    RepairRequest,
    checked_answers,
)
from codeflash_parallel.result.candidate_model import CandidateId

#: Requests that are worked on at once: providers wait for networks, so more than cores, less than a flood.
WORKERS = 4
#: Requests past their deadline that are put up with; each one may keep a thread.
MAX_ABANDONED = 4
#: What a command provider, which has a deadline of its own, gets on top to be killed and to say so.
_KILL_GRACE_S = 5.0
#: How much of a provider's own words is kept in a reason.
_REASON_CHARS = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class ProviderSpending:
    """Requests and candidates of a run so far.

    Attributes:
        repairs: requests made, by the root of the lineage they were made for.
        refined: candidates that were sent to the refiner.
        correct: candidates that are equivalent to the baseline.
        candidates: candidates known, those that are still to be judged included.
        seconds_left: of the wall budget; infinite if there is none.
    """

    repairs: Mapping[CandidateId, int] = field(default_factory=dict)
    refined: frozenset[CandidateId] = frozenset()
    correct: int = 0
    candidates: int = 0
    seconds_left: float = float("inf")

    def with_repair(self, root: CandidateId) -> ProviderSpending:
        """Return the state after one more repair request."""
        return replace(self, repairs={**self.repairs, root: self.repairs.get(root, 0) + 1})

    def has_room(self, limits: Settings) -> bool:
        """Tell whether time and number of candidates allow any further candidate."""
        return self.seconds_left > 0 and not 0 < limits.max_candidates <= self.candidates


@dataclass(frozen=True, kw_only=True, slots=True)
class RefinementContender:
    """A candidate that is faster than the baseline, as the ranking sees it.

    Attributes:
        depth: refinements in its lineage, itself included.
        speedup: estimate against the baseline.
        parent_speedup: the estimate of the candidate that it refines; 0 if it refines none.
    """

    id: CandidateId
    depth: int
    speedup: float
    parent_speedup: float = 0.0


def may_repair(limits: Settings, spent: ProviderSpending, root: CandidateId, evidence: int) -> bool:
    """Tell whether one more repair may be asked for.

    Args:
        limits: of the run; see `Settings` for what 0 means.
        spent: so far.
        root: oldest ancestor of the candidate (itself if it has no parent): a lineage shares its repairs.
        evidence: number of failing tests, missing tests and differing values that can be shown.
    """
    return (
        evidence > 0
        and spent.has_room(limits)
        and not 0 < limits.enough_correct <= spent.correct
        and spent.repairs.get(root, 0) < limits.repairs_per_candidate
        and sum(spent.repairs.values()) < limits.repairs_per_run
    )


def choose_refinements(
    limits: Settings, spent: ProviderSpending, ranked: Sequence[RefinementContender]
) -> tuple[CandidateId, ...]:
    """Return the candidates to refine next: the top k that are new to the refiner and whose lineage gains.

    Args:
        limits: of the run; see `Settings` for what 0 means.
        spent: so far.
        ranked: faster candidates, the fastest first.
    """
    return tuple(
        contender.id
        for contender in (ranked[: limits.refine_top] if spent.has_room(limits) else ())
        if contender.id not in spent.refined
        and contender.depth < limits.refine_depth
        # a lineage is followed for as long as it brings something
        and contender.speedup > contender.parent_speedup
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Provider:
    name: str
    call: Callable[[Any], object]
    deadline_s: float

    def outcome(self, question: object, parents: Sequence[CandidateId]) -> Outcome:
        """Call the provider and check its answers, in its thread: even listing them may take forever."""
        try:
            return ProviderAnswers(answers=checked_answers(self.call(question), parents))
        except BaseException as error:  # noqa: BLE001 - a provider may call `sys.exit`
            said = "".join(traceback.format_exception_only(error)).strip()[:_REASON_CHARS]
            return ProviderFailure(reason=f"The {self.name} failed: {said}")


class Broker:
    """Made by `open_broker`; each caller awaits the outcome of its own request."""

    def __init__(
        self,
        threads: ThreadPoolExecutor,
        repairer: _Provider | None,
        refiner: _Provider | None,
        warn: Callable[[str], None],
    ) -> None:
        self._threads = threads
        self._repairer = repairer
        self._refiner = refiner
        self._warn = warn
        self._places = anyio.CapacityLimiter(WORKERS)
        self._abandoned = 0

    @property
    def _is_off(self) -> bool:
        return self._abandoned >= MAX_ABANDONED

    @property
    def repairs(self) -> bool:
        """Tell whether there is a repairer, and providers are not off."""
        return self._repairer is not None and not self._is_off

    @property
    def refines(self) -> bool:
        """Tell whether there is a refiner, and providers are not off."""
        return self._refiner is not None and not self._is_off

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
            if self._is_off:
                return ProviderFailure(reason="Providers are off: too many requests never came back.")
            with anyio.move_on_after(provider.deadline_s):
                answer = self._threads.submit(provider.outcome, question, parents)
                # A limiter of its own: the default one is shared with all other threads, and may be full.
                alone = anyio.CapacityLimiter(1)
                return await anyio.to_thread.run_sync(answer.result, abandon_on_cancel=True, limiter=alone)
            self._abandoned += 1
            if self._abandoned == MAX_ABANDONED:
                self._warn(f"{MAX_ABANDONED} requests hang; providers are not asked any more in this run.")
        reason = f"The {provider.name} gave no answer within {provider.deadline_s:g} s."
        return ProviderFailure(reason=reason)


@asynccontextmanager
async def open_broker(
    repairer: Repairer | None = None,
    refiner: Refiner | None = None,
    *,
    deadline_s: float,
    warn: Callable[[str], None] = lambda _message: None,
) -> AsyncIterator[Broker]:
    """Open a broker; leaving it gives up what is unanswered, kills commands, and waits for no provider.

    Args:
        repairer: answers repair requests.
        refiner: answers batches of refinement requests.
        deadline_s: wall seconds that one request may take; command providers have their own.
        warn: told when providers are switched off.
    """
    children = ProviderProcesses()

    def bound(name: str, provider: Callable[[Any], object] | None) -> _Provider | None:
        if isinstance(provider, CommandProvider):
            limit_s = provider.deadline_s + _KILL_GRACE_S
            return _Provider(name=name, call=partial(provider.answer, children), deadline_s=limit_s)
        return None if provider is None else _Provider(name=name, call=provider, deadline_s=deadline_s)

    threads = ThreadPoolExecutor(WORKERS + MAX_ABANDONED, thread_name_prefix="codeflash-provider")
    try:
        yield Broker(threads, bound("repairer", repairer), bound("refiner", refiner), warn)
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
        children.close()
