"""The result of a run: final statuses, verdict, and all figures of the report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from math import exp, log
from statistics import median
from typing import Any

from codeflash_parallel.config.settings import ComparisonMode
from codeflash_parallel.race.guards import cpu_per_call
from codeflash_parallel.race.measurement import (
    BlockKind,
    ChannelCost,
    DecidingClock,
    Round,
    blocks_of,
    channel_cost,
    net_ns,
    without_line,
)
from codeflash_parallel.race.plan import BASELINE, NULL, WorkKind, weights
from codeflash_parallel.race.race_result import Raced, RaceOutcome
from codeflash_parallel.race.statistics.confidence_sequence import SequentialEvidence, bounds
from codeflash_parallel.race.statistics.log_ratios import track
from codeflash_parallel.race.statistics.sequential_test import ArmStanding, speedup, unit_sd
from codeflash_parallel.result.candidate_model import CandidateId
from codeflash_parallel.result.events import Stage, Step
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Level, Verdict
from codeflash_parallel.result.result_model import (
    MAX_IDS,
    STEPS,
    CandidateResult,
    GroupSpeedup,
    RaceFigures,
    RunFault,
    RunResult,
    Speedup,
)
from codeflash_parallel.run.campaign import Comparison
from codeflash_parallel.run.ledger import CandidateEntry, Ledger, RaceFinding, RunContext, RunFindings
from codeflash_parallel.warm.server_fleet import Fleet

#: Nanoseconds in a second.
SECOND = 1e9

#: Work of which a call is one call of a function: there is a throughput.
_COUNTED = frozenset({WorkKind.CALLS, WorkKind.CALLABLE})

#: What a standing that ended an arm's race means, one clause.
_DROPPED = {
    ArmStanding.FUTILE: "not faster by as much as is worth finding",
    ArmStanding.HOPELESS: "slower in its first rounds",
    ArmStanding.REGRESSES: "slower than allowed in a group of tests",
    ArmStanding.BEATEN: "another candidate is faster",
    ArmStanding.BEHIND: "others were ahead when the field was cut to save time",
}


def figures(outcomes: Sequence[RaceOutcome], candidate: str) -> RaceFigures | None:
    """Return what the last of some races measured of a candidate; `None` when it was in none.

    Args:
        outcomes: races and confirmations, in the order in which they were held.
        candidate: its id.
    """
    held = [raced for raced in outcomes if isinstance(raced, Raced) and candidate in raced.tracks]
    if not held or not held[-1].tracks[candidate].total:
        return None
    raced = held[-1]
    rate, baseline_rate = _calls_per_s(raced, candidate), _calls_per_s(raced, BASELINE)
    return RaceFigures(
        stage=raced.plan.stage.value,
        rounds=len(raced.tracks[candidate].total),
        dropped=_dropped(raced, candidate),
        dropped_after=raced.looks.dropped_after.get(candidate, 0),
        cpu=_cpu(raced, candidate),
        wall=_on(raced, candidate, DecidingClock.WALL),
        seen=_gain(raced.tracks[candidate].total),
        unseen=_gain(raced.tracks[candidate].unseen),
        peak_bytes=_peak(raced, candidate),
        baseline_peak_bytes=_peak(raced, BASELINE),
        calls_per_s=rate,
        baseline_calls_per_s=baseline_rate,
    )


def _dropped(raced: Raced, candidate: str) -> str:
    if candidate in raced.out:
        return raced.out[candidate].reason
    return _DROPPED.get(raced.standing(candidate), "")


def _cpu(raced: Raced, candidate: str) -> Speedup | None:
    """Return the speedup in CPU time; where the wall clock decides, that of units with all their children.

    What children use is not on the clock of a block: a candidate that hands its work to them would seem to
    use next to nothing.
    """
    if raced.tracks[candidate].clock is DecidingClock.CPU:
        return _on(raced, candidate, DecidingClock.CPU)
    counted = [round_ for round_ in raced.rounds if not round_.void]
    pairs = [(cpu_per_call(r, BASELINE), cpu_per_call(r, candidate)) for r in counted]
    gains = [log(base / own) for base, own in pairs if base and own]
    return speedup(bounds(gains, raced.error), DecidingClock.CPU, raced.plan.stage)


def _on(raced: Raced, candidate: str, clock: DecidingClock) -> Speedup | None:
    found = track(raced.rounds, candidate, raced.plan, clock)
    return speedup(bounds(found.total, raced.error), clock, raced.plan.stage)


def _gain(log_ratios: Sequence[float]) -> float | None:
    return exp(SequentialEvidence(log_ratios).centre()) if log_ratios else None


def _peak(raced: Raced, arm: str) -> int:
    return max((round_.peak_bytes.get(arm, 0) for round_ in raced.rounds), default=0)


def _calls_per_s(raced: Raced, arm: str) -> float | None:
    """Return an arm's throughput on the wall clock in a pass over the calls, by the median of each group."""
    if raced.plan.work not in _COUNTED:
        return None
    cost = channel_cost(raced.rounds)
    rounds = [without_line(round_) for round_ in raced.rounds if not round_.void]
    counts = [max(1, len(group.calls)) for group in raced.plan.groups]
    per_call = [_usual_ns(rounds, arm, group, cost) for group in range(len(counts))]
    if not all(per_call):
        return None
    return SECOND * sum(counts) / sum(n * ns for n, ns in zip(counts, per_call, strict=True))


def _usual_ns(rounds: Sequence[Round], arm: str, group: int, cost: ChannelCost) -> float:
    """Return the wall time of one call of a group, median over the timed blocks; 0 without any."""
    timed = blocks_of(rounds, arm, BlockKind.TIMED, group)
    return median([net_ns(block, cost, DecidingClock.WALL) / block.calls for block in timed] or [0.0])


def race_summary(outcomes: Sequence[RaceOutcome]) -> dict[str, Any]:
    """Return what is said of the races of a run, as `RunResult.race` has it; empty without a race."""
    held = [raced for raced in outcomes if isinstance(raced, Raced)]
    if not held:
        return {}
    rounds = [round_ for raced in held for round_ in raced.rounds]
    return {
        "workload": held[0].plan.work.value,
        "rounds": len(rounds),
        "void": sum(bool(round_.void) for round_ in rounds),
        "seconds": sum(raced.wall_ns for raced in held) / SECOND,
        "budget_s": held[0].plan.budget_ns / SECOND,
        "unit_sd": _unit_sd(held[0]),
        "groups": [
            {"group": group.name, "share": share, "tests": list(group.tests[:MAX_IDS])}
            for group, share in zip(held[0].plan.groups, weights(held[0].plan.groups), strict=True)
        ],
    }


def _unit_sd(raced: Raced) -> float | None:
    """Return the spread of one round: of the second baseline, or else of the quietest candidate."""
    null = [raced.tracks[NULL]] if NULL in raced.tracks and raced.tracks[NULL].total else []
    timed = null or [found for found in raced.tracks.values() if len(found.total) > 1]
    return min((unit_sd(found) for found in timed), default=None)


def without_candidates(account: RunFindings) -> RunResult:
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
    return _result(account, verdict, f"{summary}{_accepted(account)}{_campaign_sentence(account)}")


def _campaign_sentence(account: RunFindings) -> str:
    found = account.comparison
    if found is None:
        return ""
    error, name = _campaign_error(account, found), account.setup.settings.campaign
    return f" It was comparison {found.number} of campaign {name}, tested at an error of {100 * error:.2g} %."


def _campaign_error(account: RunFindings, comparison: Comparison) -> float:
    return (1 - account.setup.settings.confidence) * comparison.share


def _accepted(account: RunFindings) -> str:
    """Return a sentence on candidates of which the user's judge accepted results; leaders only, if any."""
    judge, leaders = account.setup.settings.accept, account.finding.leaders
    equal = [entry.result for entry in account.ledger if entry.result and entry.result.status.is_equivalent]
    named = [r for r in equal if r.values.accepted and (r.id in leaders or not leaders)]
    if not named:
        return ""
    names = ", ".join(f"{result.id} on {result.values.accepted} calls" for result in named)
    return f" Where results differ they were accepted by your judge {judge}: {names}."


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
        hint=f"`codeflash-parallel resume {account.run_id}` continues it.",
    )
    return replace(_result(account, None, "The run was interrupted."), error=fault)


def _result(account: RunFindings, verdict: Verdict | None, summary: str) -> RunResult:
    account.lap("report")
    setup, finding, spent_ms = account.setup, account.finding, account.spent_ms
    candidates = _candidates(account.ledger)
    return RunResult(
        run_id=account.run_id,
        complete=verdict is not None,
        verdict=verdict,
        summary=summary,
        seed=account.seed,
        compare=setup.settings.compare.value,
        isolation=setup.isolation.level.value,
        isolation_requested=setup.settings.isolation,
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
        run_dir=str(setup.run_dir(account.run_id)),
        hosts=account.hosts,
        **(_places(finding) if verdict is not None else {}),
        **(_baseline(account.context, candidates) if account.context is not None else {}),
    )


def _candidates(ledger: Ledger) -> tuple[CandidateResult, ...]:
    """Return the results; duplicates have the findings of the candidate that they repeat."""
    results = {entry.id: entry.result for entry in ledger if entry.result is not None}
    found = []
    for result in results.values():
        original = results.get(CandidateId(result.duplicate_of)) if result.duplicate_of else None
        names = ("tests", "values", "hints", "speedup") if original else ()
        found.append(replace(result, **{name: getattr(original, name) for name in names}))
    return tuple(found)


def summed(timings_ms: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return the sum of candidates' times, by step; empty when none held a slot."""
    spent = [timings for timings in timings_ms if timings]
    return {step: sum(timings.get(step, 0.0) for timings in spent) for step in STEPS} if spent else {}


def _race(account: RunFindings) -> dict[str, Any]:
    found = race_summary(account.finding.outcomes)
    return {**found, **account.timed, **_campaign(account)} if found else {}


def _campaign(account: RunFindings) -> dict[str, Any]:
    """Return the comparison of a campaign that the last race was, as `RaceSummary` has it."""
    found, name = account.comparison, account.setup.settings.campaign
    if found is None:
        return {}
    error = _campaign_error(account, found)
    return {"campaign": {"name": name, "number": found.number, "kept": found.kept, "error": error}}


def _places(finding: RaceFinding) -> dict[str, Any]:
    """Return the winner and the tie set."""
    ranking = finding.ranking
    if ranking is None:
        return {}
    winner = CandidateId(ranking.winner) if ranking.winner else None
    return {"winner": winner, "tie_set": tuple(map(CandidateId, ranking.tie_set))}


def _baseline(context: RunContext, candidates: Sequence[CandidateResult]) -> dict[str, Any]:
    """Return the fields of the result that describe the baseline."""
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
    """Return the deepest level of comparison; with a judge, other results could be accepted."""
    is_derived = any(candidate.values.level is Level.DERIVED for candidate in candidates)
    level = Level.DERIVED if is_derived else context.baseline.level
    return Level.ACCEPTED if context.plan.judge and level is not Level.TESTS else level


def _warm(fleet: Fleet) -> dict[str, Any]:
    """Return the use of warm servers."""
    tally = fleet.tally()
    counts = {name: tally[name] for name in ("servers", "forks", "restarts")}
    return {**counts, "unfit": list(fleet.reasons())}


_NOT_RACED = "It is equivalent to the baseline; no race was asked for."
_RACE_CUT = "It is equivalent to the baseline; the budget was spent before the race was over."
_NOT_HELD = "It is equivalent to the baseline; the race was not held."
_NOT_JUDGED = "The budget was spent before it was judged."
_HALF_JUDGED = "The budget was spent before it had passed the tests that screening left out."

#: Statuses that say nothing about the candidate.
_UNJUDGED = frozenset({CandidateStatus.CANCELLED, CandidateStatus.INFRA})


def finish_all(ledger: Ledger, finding: RaceFinding, *, with_race: bool) -> None:
    """Give every candidate a final status: its place in the ranking, or how far it came."""
    for entry in ledger:
        if entry.passed and not entry.owes_tests:
            _finish_equivalent(ledger, entry, finding, with_race=with_race)
        elif entry.stage is not Stage.FINISHED:
            reason = _HALF_JUDGED if entry.owes_tests else _NOT_JUDGED
            ledger.finish(entry, CandidateStatus.CANCELLED, Code.CANCELLED, reason)


def _finish_equivalent(
    ledger: Ledger, entry: CandidateEntry, finding: RaceFinding, *, with_race: bool
) -> None:
    placed = finding.ranking.of(entry.id) if finding.ranking is not None else None
    if placed is None:
        ledger.finish(entry, CandidateStatus.UNDECIDED, *_unraced(finding, with_race=with_race))
        return
    # A later race, or the check after it, was cut short; the result of the race before it still holds.
    if entry.stage in {Stage.RACING, Stage.CONFIRMING}:
        ledger.move(entry, Step.MEASURE)
    ledger.finish(
        entry,
        placed.status,
        placed.code,
        sentence(placed.reason),
        speedup=placed.speedup,
        group_speedups=tuple(GroupSpeedup(group=name, **asdict(one)) for name, one in placed.groups),
        race=figures(finding.outcomes, entry.id),
    )


def _unraced(finding: RaceFinding, *, with_race: bool) -> tuple[Code, str]:
    """Return code and reason of a candidate that is equivalent and not ranked."""
    if not with_race:
        return Code.NOT_RACED, _NOT_RACED
    return (Code.RACE_NOT_HELD, _NOT_HELD) if finding.not_held else (Code.CANCELLED, _RACE_CUT)


def conclusion(ledger: Ledger, finding: RaceFinding, *, with_race: bool) -> tuple[Verdict | None, str]:
    """Return the verdict of a run in which everyone has a final status, and the sentence to quote.

    There is no verdict where none is known to be equivalent and some were not judged.
    """
    if finding.ranking is not None:
        return finding.ranking.verdict, finding.ranking.summary
    statuses = [entry.result.status for entry in ledger if entry.result is not None]
    correct = [status for status in statuses if status is CandidateStatus.UNDECIDED]
    unjudged = sum(status in _UNJUDGED for status in statuses)
    if not correct and unjudged:
        return None, _unknown(unjudged, len(ledger))
    if not correct:
        return Verdict.NONE_CORRECT, f"None of {len(ledger)} candidates is equivalent to the baseline."
    many = f"{len(correct)} of {len(ledger)} candidates are equivalent to the baseline"
    if with_race:
        return Verdict.TOO_NOISY, f"{many}; {_cut_short(finding)}"
    return Verdict.CHECKED, f"{many}; none was raced."


def _cut_short(finding: RaceFinding) -> str:
    if not finding.not_held:
        return "the budget was spent before the race was over."
    return f"the race was not held: {finding.not_held[:1].lower()}{finding.not_held[1:]}"


def _unknown(unjudged: int, total: int) -> str:
    if unjudged == total:
        return f"None of {total} candidates was judged: nothing is known of them."
    judged = f"none of the {total - unjudged} that were is equivalent to the baseline"
    return f"{unjudged} of {total} candidates were not judged; {judged}."


def sentence(clause: str) -> str:
    """Make a sentence of a clause."""
    return f"{clause[:1].upper()}{clause[1:]}{'' if clause.endswith('.') else '.'}" if clause else ""
