"""Races of a run that another host holds."""

from __future__ import annotations

from codeflash_parallel.race.race_result import Policy
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
        racing = [*map(ledger.get, account.finding.leaders), *newly]
        with account.phase("race", "on a host that does nothing else"):
            if self._context.settings.campaign:
                await self._comparison(len(account.finding.races))
            for entry in racing:
                ledger.move(entry, Step.RACE)
            found = await self._held(racing)
            for entry in racing:
                ledger.move(entry, Step.MEASURE)
            account.finding, account.timed, self._before = found.finding, found.timed, found
            await self._admission.confirm([entry for entry in racing if self._was_confirmed(entry)])
        if found.finding.not_held:
            goes_on = f"`codeflash-parallel resume {self._context.run_id}` continues the run."
            ledger.warn(f"The race was not held: {found.finding.not_held} {goes_on}")
        return not found.finding.not_held

    async def _held(self, racing: list[CandidateEntry]) -> RemoteRace:
        """Return the races of a field, unless the step cache has them."""
        cache = self._context.cache
        key = [(entry.id, entry.staged.content_key) for entry in racing]
        known: RemoteRace | None = cache.get(RemoteRace, StepKind.RACE, "host", key)
        if known is not None:
            return known
        found = await self._hosts.race(racing, self._before)
        if not found.finding.not_held:
            await cache.keep(RemoteRace, found, StepKind.RACE, "host", key)
        return found

    def _was_confirmed(self, entry: CandidateEntry) -> bool:
        """Return whether a host has checked it in new processes: what that said is in the step cache."""
        return bool(self._context.cache.text(StepKind.CLEAN, entry.staged.content_key))
