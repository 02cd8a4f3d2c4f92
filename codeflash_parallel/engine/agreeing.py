"""The rules of a round's races: those that were agreed on when the round began, if it goes on."""

from __future__ import annotations

from dataclasses import replace

from codeflash_parallel.benchmark.policy import Policy
from codeflash_parallel.engine.context import RunContext
from codeflash_parallel.engine.happened import Agreed
from codeflash_parallel.engine.race_terms import RaceTerms, race_plan, race_terms
from codeflash_parallel.engine.workload import Workload


async def agreed_terms(context: RunContext, workload: Workload, policy: Policy, number: int) -> RaceTerms:
    """Return the terms of a round's races, and remember them.

    A budget that is automatic depends on what a start of a process costs; measured again it would differ,
    and no race that was held under the old one would count.

    Args:
        number: of the round, from 0.
    """
    known = context.journal.known
    agreed = known.rules.get(number) if known else None
    if agreed is not None:
        plan = replace(race_plan(context.settings, workload), budget_ns=agreed.budget_ns)
        if plan == agreed:
            return RaceTerms(workload=workload, plan=agreed, policy=policy)
    async with context.quiet.exclusive():  # starts of processes are timed
        terms = await race_terms(context, workload, policy)
    context.journal.note(Agreed(round=number, plan=terms.plan))
    return terms
