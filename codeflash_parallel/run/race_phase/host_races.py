"""Races of a run that another host holds."""

from __future__ import annotations

from dataclasses import replace

from codeflash_parallel.race.race_result import Policy
from codeflash_parallel.result.candidate_model import CandidateId
from codeflash_parallel.result.events import Step
from codeflash_parallel.run.check_phase.check_coordinator import RaceAdmission
from codeflash_parallel.run.check_phase.watched_functions import WatchedBaseline
from codeflash_parallel.run.ledger import CandidateEntry, RunContext, RunFindings
from codeflash_parallel.run.provider_requests import ProviderRequests
from codeflash_parallel.run.race_phase.race_coordinator import RaceCoordinator
from codeflash_parallel.run.remote_hosts import RemoteHosts, RemoteRace
from codeflash_parallel.run.run_state import StepKind


class HostRaces(RaceCoordinator):
    """Has the races of a run held by one host, which chooses what is timed."""

    def __init__(
        self,
        hosts: RemoteHosts,
        account: RunFindings,
        context: RunContext,
        admission: RaceAdmission,
        providers: ProviderRequests,
        policy: Policy,
    ) -> None:
        super().__init__(account, context, admission, providers, policy)
        self._hosts = hosts
        self._before: RemoteRace | None = None

    async def choose(self) -> WatchedBaseline | None:
        """Choose nothing: the host does."""
        return None

    async def make_twins(self) -> None:
        """Make none: the host does."""

    async def race(self) -> bool:
        """Have the candidates raced that have passed since the last race, with the leaders so far.

        Returns:
            Whether a race was held. Cancelling ends it on its host.
        """
        account, ledger = self._account, self._ledger
        newly = ledger.newly_passed()
        if not newly or not self._context.races:
            return False
        raced = dict.fromkeys(name for held in account.finding.races for name in held.candidates)
        field = [*(ledger.get(CandidateId(name)) for name in raced), *newly]
        racing = [*map(ledger.get, account.finding.leaders), *newly]
        with account.phase("race", "on a host that does nothing else"):
            if self._context.settings.campaign:
                await self._comparison(len(account.finding.races))
            for entry in racing:
                ledger.move(entry, Step.RACE)
            found = await self._held(field)
            for entry in racing:
                ledger.move(entry, Step.MEASURE)
            await self._admission.confirm([entry for entry in racing if self._was_confirmed(entry)])
        if why := found.finding.not_held:
            account.finding = replace(account.finding, not_held=why)
            goes_on = f"`codeflash-parallel resume {self._context.run_id}` continues the run."
            ledger.warn(f"The race was not held: {why} {goes_on}")
            return False
        account.finding, account.timed, self._before = found.finding, found.timed, found
        return True

    async def _held(self, field: list[CandidateEntry]) -> RemoteRace:
        """Return the races of a field, unless the step cache has them."""
        cache = self._context.cache
        key = [(entry.id, entry.staged.content_key) for entry in field]
        known: RemoteRace | None = cache.get(RemoteRace, StepKind.RACE, "host", key)
        if known is not None:
            return known
        found = await self._hosts.race(field, self._before)
        if not found.finding.not_held:
            await cache.keep(RemoteRace, found, StepKind.RACE, "host", key)
        return found

    def _was_confirmed(self, entry: CandidateEntry) -> bool:
        """Return whether a host has checked it in new processes: what that said is in the step cache."""
        return bool(self._context.cache.text(StepKind.CLEAN, entry.staged.content_key))
