"""How a run ends: a final status for everyone who has none, and a verdict."""

from __future__ import annotations

from dataclasses import asdict

from codeflash_parallel.race.ranking.race_figures import figures
from codeflash_parallel.result.events import Stage, Step
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Verdict
from codeflash_parallel.result.result_model import GroupSpeedup
from codeflash_parallel.run.race_phase.race_coordinator import RaceFinding
from codeflash_parallel.run.state.ledger import CandidateEntry, Ledger

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
    # A later race, or a look after it, was cut short; what the race before it said still holds.
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
    """Return what is said of a candidate that is equivalent and has no place in a ranking."""
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
