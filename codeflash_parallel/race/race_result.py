"""Results of a race: all that was measured, why arms left it, the ranking, and the order of a tie."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import shorten

from codeflash_parallel.race.measurement import Round
from codeflash_parallel.race.plan import RacePlan
from codeflash_parallel.race.statistics.log_ratios import ArmLogRatios
from codeflash_parallel.race.statistics.sequential_test import ArmStanding, InterimState, error_of
from codeflash_parallel.result.errors import UsageError
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, ExitKind, Verdict
from codeflash_parallel.result.result_model import Speedup
from codeflash_parallel.result.runtime_protocols import ProcessExit
from codeflash_parallel.sandbox.runner_command import parse_records


@dataclass(frozen=True, kw_only=True, slots=True)
class Disqualification:
    """Why an arm left the race for a reason other than its speed."""

    status: CandidateStatus
    code: Code
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Raced:
    """Everything that a race measured.

    Attributes:
        candidates: ids, in the order in which they were handed in.
        rounds: raw material; all figures can be computed from it again.
        tracks: by arm, the null arm included; an arm that was dropped has fewer rounds.
        looks: the state after the last look.
        out: arms that left for a reason other than their speed.
        wall_ns: of the whole race, process starts included.
        round_ns: median wall time of a round.
        needed_ns: budget that this race alone would have needed, about; 0: its own was not too small.
        stopped: why it ended, one sentence.
        notes: what a person should know.
    """

    plan: RacePlan = field(repr=False)
    candidates: tuple[str, ...]
    rounds: tuple[Round, ...] = field(repr=False)
    tracks: Mapping[str, ArmLogRatios] = field(repr=False)
    looks: InterimState
    out: Mapping[str, Disqualification]
    wall_ns: int
    round_ns: int
    stopped: str
    needed_ns: int = 0
    notes: tuple[str, ...] = ()

    @property
    def error(self) -> float:
        """The error that each bound of one candidate may spend."""
        return error_of(self.plan, max(1, len(self.candidates)))

    def standing(self, candidate: str) -> ArmStanding:
        """Return how a candidate stood at the look that dropped it, or at the last one."""
        return self.looks.standing(candidate)


@dataclass(frozen=True, kw_only=True, slots=True)
class RaceFailed:
    """The race could not be held: the machinery or the baseline failed, no candidate is to blame."""

    candidates: tuple[str, ...]
    reason: str
    code: Code = Code.INFRA_SLOT


RaceOutcome = Raced | RaceFailed


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


#: How much of a failed arm's own words is kept.
SAID_CHARS = 300


class ArmFailure(Exception):  # noqa: N818 - a state of one arm, not an error of ours
    """An arm can no longer be timed; the reason is one clause about it.

    Never leaves this package.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ArmResponseTimeout(ArmFailure):
    """The arm did not answer in time."""


class ArmWorkTimeout(ArmFailure):
    """The arm's calls were not done in time."""


class RaceBudgetExceeded(Exception):  # noqa: N818 - the end of a race, not an error
    """The budget was spent before all arms were ready; none of them is to blame.

    Never leaves this package.
    """


class ArmStartFailure(ArmFailure):
    """The machinery could not start the arm's process, or keep it."""


class ArmOutOfMemory(ArmStartFailure):
    """The kernel killed the arm's process: the machine had no memory left."""


class ArmMemoryLimitExceeded(ArmFailure):
    """The arm's process reached its memory limit."""


def explained(lost: ArmFailure, ended: ProcessExit) -> ArmFailure:
    """Return why an arm was lost, with what its process said and how it ended."""
    if ended.ended is ExitKind.NOT_STARTED:
        return ArmStartFailure(f"could not be started: {ended.message}")
    if ended.ended is ExitKind.OOM_KILLED:
        return ArmOutOfMemory("was killed: the machine had no memory left")
    if ended.ended is ExitKind.MEMORY_LIMIT:
        return ArmMemoryLimitExceeded(f"reached its memory limit: {ended.message}")
    errors = [str(r.get("message", "")) for r in parse_records(ended.records) if r.get("t") == "error"]
    said = errors[-1] if errors else _last_line(ended.stderr)
    if isinstance(lost, ArmResponseTimeout | ArmWorkTimeout) or not said:
        return lost
    return ArmFailure(f"{lost.reason}: {said[:SAID_CHARS]}")


def code_of(lost: ArmFailure) -> Code:
    """Return the code of the machinery's failure, as checks have it."""
    return Code.INFRA_MEMORY if isinstance(lost, ArmOutOfMemory) else Code.INFRA_SLOT


def out_of(lost: ArmFailure) -> Disqualification:
    """Return what is said of a candidate that could not be timed."""
    match lost:
        case ArmStartFailure():
            return Disqualification(status=CandidateStatus.INFRA, code=code_of(lost), reason=lost.reason)
        case ArmMemoryLimitExceeded():
            return Disqualification(
                status=CandidateStatus.REJECTED, code=Code.OUT_OF_MEMORY, reason=lost.reason
            )
        case ArmWorkTimeout():
            return Disqualification(status=CandidateStatus.LOST, code=Code.NOT_FASTER, reason=lost.reason)
        case _:
            return Disqualification(
                status=CandidateStatus.UNDECIDED, code=Code.NOT_CONFIRMED, reason=f"not timed: {lost.reason}"
            )


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""
