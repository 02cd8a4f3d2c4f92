"""What is said of a run's candidates: values, kept in records and told in results. Nothing here acts."""

from __future__ import annotations

from dataclasses import dataclass

from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Verdict
from codeflash_parallel.result.result_model import Speedup


@dataclass(frozen=True, kw_only=True, slots=True)
class RankedCandidate:
    """What the races say of one candidate.

    Attributes:
        reason: one clause, no full stop.
        speedup: of the confirmation where there was one, else of the race; `None` with too few rounds.
        groups: speedups by group of tests.
    """

    id: str
    status: CandidateStatus
    code: Code
    reason: str
    speedup: Speedup | None = None
    groups: tuple[tuple[str, Speedup], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class RaceRanking:
    """The verdict of the races.

    Attributes:
        winner: id, empty unless the verdict is `winner` or `tie`.
        tie_set: ids, in the order of the policy; empty unless the verdict is `tie`.
        candidates: in the order in which the races had them.
        summary: one sentence that can be quoted.
    """

    verdict: Verdict
    winner: str = ""
    tie_set: tuple[str, ...] = ()
    candidates: tuple[RankedCandidate, ...]
    summary: str
    notes: tuple[str, ...] = ()

    def of(self, candidate: str) -> RankedCandidate | None:
        """Return what is said of one candidate, `None` if it never raced."""
        return next((ranked for ranked in self.candidates if ranked.id == candidate), None)
