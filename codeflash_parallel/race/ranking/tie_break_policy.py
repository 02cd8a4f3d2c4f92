"""Which of the equally fast is named the winner. Pure: a policy is a function from facts to an order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from textwrap import shorten

from codeflash_parallel.result.errors import UsageError


@dataclass(frozen=True, kw_only=True, slots=True)
class TieBreakFacts:
    """What orders candidates that are equally fast.

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
    """What a policy may know of an arm that is confirmed as faster and that the fastest does not beat.

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
