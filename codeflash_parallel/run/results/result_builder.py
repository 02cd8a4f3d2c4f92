"""The result of a run, put together from what it has found out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from codeflash_parallel.config.settings import ComparisonMode
from codeflash_parallel.race.ranking.race_figures import summary as race_summary
from codeflash_parallel.result.candidate_model import CandidateId
from codeflash_parallel.result.events import Stage
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Level, Verdict
from codeflash_parallel.result.result_model import CandidateResult, RunFault, RunResult
from codeflash_parallel.run.race_phase.race_coordinator import RaceFinding
from codeflash_parallel.run.results.final_verdict import conclusion, finish_all
from codeflash_parallel.run.results.run_findings import RunFindings
from codeflash_parallel.run.state.ledger import Ledger, copied_from_originals, summed
from codeflash_parallel.run.state.run_context import RunContext
from codeflash_parallel.warm.server_fleet import Fleet


def of_nobody(account: RunFindings) -> RunResult:
    """Return the result of a run without candidates."""
    return _result(account, Verdict.NONE_CORRECT, "There is no candidate.")


def judged(account: RunFindings) -> RunResult:
    """Return the result of a run that came to its own end; everyone gets a final status."""
    ledger, finding = account.ledger, account.finding
    finish_all(ledger, finding, with_race=account.races)
    verdict, summary = conclusion(ledger, finding, with_race=account.races)
    if account.context is not None and account.context.baseline.left_out:
        summary += f" {account.context.baseline.left_out}"
    if account.setup.settings.compare is ComparisonMode.PASS_FAIL:
        summary += " Only test outcomes were compared (pass-fail), no values."
    leader = next((account.ledger.get(name).result for name in finding.leaders), None)
    if leader is not None and leader.values.derived:
        summary += f" {leader.claim}"
    return _result(account, verdict, f"{summary}{_accepted(account)}")


def _accepted(account: RunFindings) -> str:
    """Say of whose results the user's judge has accepted some; of the leaders, where there are any."""
    judge, leaders = account.setup.settings.accept, account.finding.leaders
    equal = [entry.result for entry in account.ledger if entry.result and entry.result.status.is_equivalent]
    named = [r for r in equal if r.values.accepted and (r.id in leaders or not leaders)]
    if not named:
        return ""
    who = ", ".join(f"{result.id} on {result.values.accepted} calls" for result in named)
    return f" Where results differ they were accepted by your judge {judge}: {who}."


def interrupted(account: RunFindings, code: str) -> RunResult:
    """Return the result of a run that was stopped; what is not finished is cancelled.

    Args:
        code: why it was stopped.
    """
    for entry in account.ledger:
        if entry.stage is not Stage.FINISHED:
            account.ledger.finish(
                entry, CandidateStatus.CANCELLED, Code.CANCELLED, "The run was interrupted."
            )
    fault = RunFault(
        family="interrupted",
        code=code,
        message="The run was interrupted.",
        hint=f"`codeflash-parallel resume {account.run_id}` goes on with it.",
    )
    return replace(_result(account, None, "The run was interrupted."), error=fault)


def _result(account: RunFindings, verdict: Verdict | None, summary: str) -> RunResult:
    account.clock.lap("report")
    setup, finding, spent_ms = account.setup, account.finding, account.clock.ms
    candidates = _candidates(account.ledger)
    return RunResult(
        run_id=account.run_id,
        complete=verdict is not None,
        verdict=verdict,
        summary=summary,
        seed=account.seed,
        compare=setup.settings.compare.value,
        isolation=setup.isolation.level.value,
        isolation_requested=setup.isolation.requested,
        pass_env=setup.pass_env,
        warnings=tuple(account.ledger.warnings),
        candidates=candidates,
        winner_profile=finding.winner_profile,
        baseline_profile=finding.baseline_profile,
        timings={**spent_ms, "total": sum(spent_ms.values())},
        steps_ms=summed(result.timings_ms for result in candidates),
        race=_race(account),
        load={"cores": float(setup.machine.cores), "load_1min": setup.machine.load},
        repository=str(setup.repository.root),
        run_dir=str(account.folder),
        **(_places(finding) if verdict is not None else {}),
        **(_baseline(account.context, candidates) if account.context is not None else {}),
    )


def _candidates(ledger: Ledger) -> tuple[CandidateResult, ...]:
    results = {entry.id: entry.result for entry in ledger if entry.result is not None}
    return tuple(copied_from_originals(results).values())


def _race(account: RunFindings) -> dict[str, Any]:
    found = race_summary(account.finding.outcomes)
    return {**found, **account.timed} if found else {}


def _places(finding: RaceFinding) -> dict[str, Any]:
    """Return who won."""
    ranking = finding.ranking
    if ranking is None:
        return {}
    winner = CandidateId(ranking.winner) if ranking.winner else None
    return {"winner": winner, "tie_set": tuple(map(CandidateId, ranking.tie_set))}


def _baseline(context: RunContext, candidates: Sequence[CandidateResult]) -> dict[str, Any]:
    """Return what is told of the ground on which candidates were judged."""
    baseline, slot = context.baseline, context.pool.baseline
    values = context.settings.compare is ComparisonMode.VALUES
    return {
        "targets": tuple(str(target) for target in context.targets),
        "snapshot": context.snapshot.commit,
        "base": context.snapshot.base,
        "python": baseline.python,
        "tests_selected": len(baseline.selected),
        "level": _level(context, candidates) if values else Level.TESTS,
        "quarantined": baseline.quarantined,
        "slots": {"kind": slot.kind.value, "bytes": slot.cost.bytes, "inodes": slot.cost.inodes},
        "warm": {} if context.fleet.off else _warm(context.fleet),
    }


def _level(context: RunContext, candidates: Sequence[CandidateResult]) -> Level:
    """Return how deep candidates were compared at most; with a judge, other results could be accepted."""
    is_derived = any(candidate.values.level is Level.DERIVED for candidate in candidates)
    level = Level.DERIVED if is_derived else context.baseline.level
    return Level.ACCEPTED if context.plan.judge and level is not Level.TESTS else level


def _warm(fleet: Fleet) -> dict[str, Any]:
    """Return what a run had of warm servers."""
    tally = fleet.tally()
    counts = {name: tally[name] for name in ("servers", "forks", "restarts")}
    return {**counts, "unfit": list(fleet.reasons())}
