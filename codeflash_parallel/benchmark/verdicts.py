"""What became of each candidate, and of all of them: status, code and words. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil, log1p

from codeflash_parallel.benchmark.attempts import is_hopeful
from codeflash_parallel.benchmark.decide import Standing
from codeflash_parallel.benchmark.entries import SECOND, Entry, beaten, entries, fastest_of
from codeflash_parallel.benchmark.noise import too_noisy, visible_gain
from codeflash_parallel.benchmark.plan import RacePlan, RaceStage
from codeflash_parallel.benchmark.raced import Raced, RaceFailed, RaceOutcome
from codeflash_parallel.benchmark.ranking import Ranked
from codeflash_parallel.model.outcome import Code, Status, Verdict

#: How the reason of a doubted candidate begins.
SUSPECT = "suspect: "

#: Who the race could not decide about: it says nothing about how fast they are.
_UNDECIDED = frozenset({Code.TOO_NOISY, Code.BUDGET_TOO_SMALL, Code.INFRA_SLOT, Code.INFRA_MEMORY})


class Judge:
    """Says what became of each candidate.

    Args:
        races: all that were held.
        confirmations: of their leaders.
        plan: the rules.
        void: a second baseline differed from the first.
        winners: the best first.
    """

    def __init__(
        self,
        races: Sequence[RaceOutcome],
        confirmations: Sequence[RaceOutcome],
        plan: RacePlan,
        *,
        void: bool,
        winners: tuple[Entry, ...],
    ) -> None:
        self._plan, self._void, self._winners = plan, void, winners
        self._outcomes = (*races, *confirmations)
        self._raced, self._tried = entries(races), entries(confirmations)
        self._short = _short(self._outcomes, plan)

    def of(self, arm: str) -> Ranked:
        """Return what is said of one candidate."""
        out = self._out(arm)
        if out is not None:
            raced = self._raced.get(arm)
            return replace(out, speedup=raced.speedup if raced else None)
        entry = self._tried.get(arm) or self._raced[arm]
        status, code, reason = self._words(entry)
        return Ranked(
            id=arm, status=status, code=code, reason=reason, speedup=entry.speedup, groups=entry.groups
        )

    def _out(self, arm: str) -> Ranked | None:
        """Return what is said of an arm that left its last race, or whose last race failed."""
        last = next(outcome for outcome in reversed(self._outcomes) if arm in outcome.candidates)
        if isinstance(last, RaceFailed):
            reason = last.reason.rstrip(".")
            return Ranked(id=arm, status=Status.INFRA, code=last.code, reason=reason)
        if arm not in last.out:
            return None
        out = last.out[arm]
        return Ranked(id=arm, status=out.status, code=out.code, reason=out.reason)

    def _words(self, entry: Entry) -> tuple[Status, Code, str]:
        if any(entry.id == winner.id for winner in self._winners):
            return self._of_winner(entry)
        if entry.standing in {Standing.FUTILE, Standing.HOPELESS, Standing.REGRESSES}:
            return _of_loser(entry)
        doubt = self._doubt(entry)
        if doubt:
            return Status.UNDECIDED, Code.NOT_CONFIRMED, SUSPECT + doubt
        if self._winners and self._is_beaten(entry):
            best = fastest_of(self._winners)
            code = Code.BEATEN if self._gains(entry) else Code.NOT_FASTER
            return Status.LOST, code, f"{entry.times}, beaten by {best.id} ({best.times})"
        return self._of_unsure(entry)

    def _doubt(self, entry: Entry) -> str:
        """Return why a confirmed gain is not credited; empty where there is no doubt or no gain."""
        if entry.id not in self._tried or entry.standing is Standing.OPEN:
            return ""
        if self._void:
            return "the baseline differs from itself by as much, so the race tells nothing"
        return entry.doubt

    def _of_winner(self, entry: Entry) -> tuple[Status, Code, str]:
        if len(self._winners) == 1:
            return Status.WON, Code.OK, f"{entry.times}, confirmed in fresh processes{entry.label}"
        others = ", ".join(w.id for w in self._winners if w.id != entry.id)
        return Status.TIED, Code.OK, f"{entry.times}, not to be told apart from {others}{entry.label}"

    def _gains(self, entry: Entry) -> bool:
        """Return whether an arm is faster than the baseline itself.

        What was only raced may owe some per cent to where it lay in memory (see `decide`).
        """
        is_confirmed = entry.id in self._tried
        least = self._plan.min_speedup if is_confirmed else visible_gain(self._plan)
        return entry.bound.low > log1p(least)

    def _is_beaten(self, entry: Entry) -> bool:
        """Return whether the winners beat an arm: in the confirmation, else by what the race said."""
        if entry.standing is Standing.BEATEN:
            return True
        leaders = [self._raced[w.id] for w in self._winners if w.id in self._raced]
        return any(beaten(leader, self._raced[entry.id], self._plan) for leader in leaders)

    def _of_unsure(self, entry: Entry) -> tuple[Status, Code, str]:
        match entry.standing:
            case Standing.OPEN:
                return self._of_open(entry)
            case Standing.BEATEN:
                why = "where another was faster; not confirmed"
            case Standing.BEHIND:
                why = "where others were ahead when the field was cut to save time; not confirmed"
            case _:
                # The attempts, or the slots, were spent on others.
                why = "not confirmed"
        # Without a winner it is the race that could not decide, unless it had found better ones to follow.
        is_decided = self._winners or not is_hopeful(entry, self._plan)
        if not is_decided and self._short:
            return Status.UNDECIDED, Code.BUDGET_TOO_SMALL, f"{entry.times} in the race, {why}; {self._short}"
        code = Code.NOT_CONFIRMED if is_decided else Code.TOO_NOISY
        return Status.UNDECIDED, code, f"{entry.times} in the race, {why}"

    def _of_open(self, entry: Entry) -> tuple[Status, Code, str]:
        least = f"{100 * self._plan.min_speedup:g} %"
        if entry.bound.low > log1p(self._plan.min_speedup):
            reason = f"{entry.times}, but it seems to be slower in {entry.slowed}"
            return Status.UNDECIDED, Code.NOT_CONFIRMED, reason
        if too_noisy(entry.bound, self._plan):
            if entry.raced.needed_ns:
                reason = f"{entry.times}: {self._short}" if entry.track.total else self._short
                return Status.UNDECIDED, Code.BUDGET_TOO_SMALL, reason
            return Status.UNDECIDED, Code.TOO_NOISY, entry.noise
        return Status.LOST, Code.NOT_FASTER, f"{entry.times}: a gain of {least} could not be shown"


def _short(outcomes: Sequence[RaceOutcome], plan: RacePlan) -> str:
    """Return that the budget was too small and what would do, one clause; empty where it was not."""
    short = [raced for raced in outcomes if isinstance(raced, Raced) and raced.needed_ns]
    if not short:
        return ""
    needed_ns = max(_whole_ns(raced, plan) for raced in short)
    return (
        f"the budget of {plan.budget_ns / SECOND:g} s is too small ({short[-1].stopped}): "
        f"about {ceil(needed_ns / SECOND)} s would decide, --time-budget {ceil(needed_ns / SECOND)}"
    )


def _whole_ns(raced: Raced, plan: RacePlan) -> float:
    """Return the whole budget of which a race would have had what it needed.

    A race has a share of it, a confirmation what is left.
    """
    if raced.plan.stage is RaceStage.RACE:
        return raced.needed_ns * plan.budget_ns / max(1, raced.plan.budget_ns)
    return plan.budget_ns - raced.plan.budget_ns + raced.needed_ns


def _of_loser(entry: Entry) -> tuple[Status, Code, str]:
    match entry.standing:
        case Standing.REGRESSES:
            return Status.LOST, Code.REGRESSES_TEST, f"{entry.times}, but slower in {entry.slowed}"
        case _:
            return Status.LOST, Code.NOT_FASTER, f"{entry.times}: not measurably faster than the baseline"


def verdict_of(ranked: Sequence[Ranked], winners: Sequence[Entry]) -> Verdict:
    """Return what is said of all candidates together."""
    if winners:
        return Verdict.WINNER if len(winners) == 1 else Verdict.TIE
    if any(r.reason.startswith(SUSPECT) for r in ranked):
        return Verdict.SUSPECT
    if any(r.code is Code.BUDGET_TOO_SMALL for r in ranked):
        return Verdict.BUDGET_TOO_SMALL
    if any(r.code in _UNDECIDED for r in ranked):
        return Verdict.TOO_NOISY
    return Verdict.NOTHING_FASTER


def summary(
    verdict: Verdict,
    order: Sequence[Entry],
    ranked: Sequence[Ranked],
    plan: RacePlan,
    diff_sizes: Mapping[str, int],
) -> str:
    """Return the verdict as one sentence that can be quoted.

    Args:
        order: the winners, the best first.
        ranked: what is said of everybody.
        plan: the rules.
        diff_sizes: changed lines by candidate.
    """
    match verdict:
        case Verdict.WINNER:
            return f"{order[0].id} {_claim(order[0], plan)}."
        case Verdict.TIE:
            names = ", ".join(entry.id for entry in order)
            named = f"{order[0].id}, {_chosen(order, diff_sizes)}, {_claim(order[0], plan)}"
            return f"{names} cannot be told apart; {named}."
        case Verdict.SUSPECT:
            doubted = next(r for r in ranked if r.reason.startswith(SUSPECT))
            return f"{doubted.id} looks faster, but is {doubted.reason}."
        case Verdict.TOO_NOISY | Verdict.BUDGET_TOO_SMALL:
            short = [r for r in ranked if r.code is Code.BUDGET_TOO_SMALL]
            unsure = next(iter(short or [r for r in ranked if r.code in _UNDECIDED]))
            return f"The race could not decide: {unsure.id}: {unsure.reason}."
        case _:
            return "No candidate is measurably faster than the baseline."


def _chosen(order: Sequence[Entry], diff_sizes: Mapping[str, int]) -> str:
    """Return why the first of a tie is named."""
    sizes = [diff_sizes.get(entry.id, 0) for entry in order]
    return "the smallest change" if sizes[0] == min(sizes) else "first by the ranking policy"


def _claim(entry: Entry, plan: RacePlan) -> str:
    gain = entry.speedup
    assert gain is not None  # an arm is confirmed only where its lower bound is finite
    return (
        f"is {gain.estimate:.2f} times as fast as the baseline ({100 * plan.confidence:g} % interval "
        f"{gain.low:.2f} to {gain.high:.2f}, {gain.clock} time)"
    )
