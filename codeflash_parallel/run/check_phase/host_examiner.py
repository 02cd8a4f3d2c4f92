"""Checks of candidates by other hosts, whose findings are in the step cache when a check is over."""

from __future__ import annotations

from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.result.events import Stage, Step
from codeflash_parallel.run.check_phase.candidate_examiner import Examination, remembered
from codeflash_parallel.run.ledger import CandidateEntry, RunContext
from codeflash_parallel.run.remote_hosts import RemoteHosts
from codeflash_parallel.run.run_state import StepKind


class HostExaminer:
    """Has candidates checked by other hosts. A host makes all checks of a candidate, one after the other."""

    def __init__(self, context: RunContext, hosts: RemoteHosts) -> None:
        self._context, self._hosts = context, hosts

    async def judge(self, entry: CandidateEntry, _examination: Examination, look: StepKind) -> CheckOutcome:
        """Return the outcome of a check. The first look has all checks made, if need be.

        A later look that no host made has nothing to add: without fresh inputs there is no check with them.

        Raises:
            EnvironmentFault: no host can check anything. Cancelling ends the check on its host.
        """
        failed = None
        if look is StepKind.SCREEN and not self._is_judged(entry):
            failed = await self._hosts.check(entry)
        outcome = failed or remembered(self._context, entry, look) or entry.outcome
        if entry.stage in {Stage.QUEUED, Stage.PASSED}:
            self._context.ledger.move(entry, Step.STAGE)
        assert outcome is not None  # a host that says that it has judged a candidate has screened it
        return outcome

    def _is_judged(self, entry: CandidateEntry) -> bool:
        """Return whether a host has come to the end of a candidate's checks, or was interrupted in them."""
        return bool(self._context.cache.text(StepKind.JUDGED, entry.staged.content_key))
