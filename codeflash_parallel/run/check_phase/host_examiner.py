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
        """Return the outcome of a check. The first look has the candidate checked, unless that is known.

        A later look that no host made has nothing to add: without fresh inputs there is no check with them.

        Raises:
            EnvironmentFault: no host can check anything. Cancelling ends the check on its host.
        """
        known = remembered(self._context, entry, look)
        if known is None and look is StepKind.SCREEN:
            failed = await self._hosts.check(entry)
            known = failed or remembered(self._context, entry, look)
        if entry.stage in {Stage.QUEUED, Stage.PASSED}:
            self._context.ledger.move(entry, Step.STAGE)
        if known is not None:
            return known
        assert entry.outcome is not None  # it was screened
        return entry.outcome
