"""Ask providers with a memory: who has answered is not asked again."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from codeflash_parallel.repair.broker import Broker
from codeflash_parallel.repair.provider_answers import Outcome, ProviderAnswers
from codeflash_parallel.repair.provider_protocol import RefinementRequest, RepairRequest
from codeflash_parallel.result.candidate.candidate_model import name_of
from codeflash_parallel.run.store.journal import Journal
from codeflash_parallel.run.store.journal_events import Answered as HasAnswered
from codeflash_parallel.run.store.journal_events import Request


class JournaledBroker:
    """Asks as `Broker` does, and keeps every answer. A request that failed is asked again by the next."""

    def __init__(self, broker: Broker, journal: Journal) -> None:
        self._broker, self._journal = broker, journal

    @property
    def repairs(self) -> bool:
        """Whether there may be repairs: somebody can be asked, or has answered."""
        return self._broker.repairs or self._has(Request.REPAIR)

    @property
    def refines(self) -> bool:
        """Whether there may be refinements: somebody can be asked, or has answered."""
        return self._broker.refines or self._has(Request.REFINEMENT)

    def _has(self, kind: Request) -> bool:
        known = self._journal.known
        return known is not None and any(request is kind for request, _about in known.answers)

    async def request_repair(self, request: RepairRequest) -> Outcome:
        """Ask for repairs of one candidate; see `Broker`."""
        return await self._asked(Request.REPAIR, [request], self._broker.request_repair(request))

    async def request_refinement(self, requests: Sequence[RefinementRequest]) -> Outcome:
        """Ask for refinements of a batch; see `Broker`."""
        asking = self._broker.request_refinement(requests)
        return await self._asked(Request.REFINEMENT, requests, asking)

    async def _asked(
        self,
        kind: Request,
        requests: Sequence[RepairRequest | RefinementRequest],
        asking: Awaitable[Outcome],
    ) -> Outcome:
        about = tuple(name_of(request.candidate, request.diff) for request in requests)
        known = self._journal.known.answers.get((kind, about)) if self._journal.known else None
        if known is not None:
            asking.close()  # type: ignore[attr-defined]
            return ProviderAnswers(answers=known)
        outcome = await asking
        if isinstance(outcome, ProviderAnswers):
            await self._journal.keep(HasAnswered(request=kind, about=about, answers=outcome.answers))
        return outcome
