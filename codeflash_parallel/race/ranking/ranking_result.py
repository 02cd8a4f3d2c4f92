"""Result of the ranking, and the policies that order a tie. Nothing here acts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from textwrap import shorten

from codeflash_parallel.result.errors import UsageError
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Verdict
from codeflash_parallel.result.result_model import Speedup


@dataclass(frozen=True, kw_only=True, slots=True)
class TieBreakFacts:
    """Facts that order candidates that are equally fast.

    Attributes:
        changed_lines: lines added and removed.
        inputs_equal: captured and derived ones for which it did as the baseline does.
        hints: reasons for a review, a clause each.
    """

    changed_lines: int = 0
    inputs_equal: int = 0
    hints: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class TiedCandidate(TieBreakFacts):
    """Facts about an arm that is confirmed as faster and that the fastest does not beat, for a policy.

    Attributes:
        id: of the candidate.
        speedup: estimate of the confirmation; 2.0 is twice as fast as the baseline.
        low: lower end of its interval.
        high: upper end.
        is_level: surely no slower than the fastest by more than indifference.
    """

    id: str
    speedup: float
    low: float
    high: float
    is_level: bool


#: Returns the ids of all that it was given, the one to be named winner first.
Policy = Callable[[Sequence[TiedCandidate]], Sequence[str]]


def fastest(tied: Sequence[TiedCandidate]) -> list[str]:
    """Put first, of those surely level with the fastest, what needs no review, then what is proven best.

    More inputs with equal outcomes come before fewer, then smaller changes before larger ones.
    """
    diffs = sorted(tied, key=lambda one: (one.changed_lines, -one.speedup, one.id))
    ranked = sorted(diffs, key=lambda one: (not one.is_level, bool(one.hints), -one.inputs_equal))
    return [one.id for one in ranked]


def smallest_diff(tied: Sequence[TiedCandidate]) -> list[str]:
    """Put the smallest change first, even if it may be slower than the fastest by more than indifference."""
    return [one.id for one in sorted(tied, key=lambda one: (one.changed_lines, -one.speedup, one.id))]


#: Policies by the name that users give.
POLICIES: dict[str, Policy] = {"fastest": fastest, "smallest-diff": smallest_diff}


def ordered(policy: Policy, tied: Sequence[TiedCandidate]) -> tuple[str, ...]:
    """Return the order that a policy gives.

    Raises:
        UsageError: it raises, or returns something else than an order of what it was given.
    """
    try:
        order = policy(tied)
    except (Exception, SystemExit) as error:
        why = " ".join(str(error).split())
        raise UsageError(
            "BAD_RANKING", f"The ranking policy failed: {type(error).__name__}: {why}."
        ) from error
    names = [one.id for one in tied]
    if (
        not isinstance(order, Sequence)
        or len(order) != len(names)
        or any(name not in order for name in names)
    ):
        found = shorten(repr(order), 80)
        raise UsageError(
            "BAD_RANKING", f"The ranking policy must return the ids of all it was given, not {found}."
        )
    return tuple(order)


@dataclass(frozen=True, kw_only=True, slots=True)
class RankedCandidate:
    """Status of one candidate after the races.

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
