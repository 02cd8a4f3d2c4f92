"""From what races measured to a verdict. Pure.

A race finds leaders; only a confirmation makes a claim. The caller asks `contenders` whom to confirm until
it names nobody, and then asks `rank` for the verdict::

    while ids := contenders(races, confirmations, plan, limit=slots):
        again = confirmation_of(races, confirmations, left_of(plan, [*races, *confirmations]), ids)
        confirmations.append(await race(bench, baseline, arms(ids), again, random=random))
    ranking = rank(races, confirmations, plan, merits)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from math import ceil, exp

from codeflash_parallel.race.guards import Doubt
from codeflash_parallel.race.plan import RacePlan, RaceStage
from codeflash_parallel.race.race_result import (
    Policy,
    Raced,
    RaceFailed,
    RaceOutcome,
    RaceRanking,
    RankedCandidate,
    TieBreakFacts,
    TiedCandidate,
    fastest,
    ordered,
)
from codeflash_parallel.race.ranking.arm_comparison import (
    SECOND,
    ArmComparison,
    alike,
    beaten,
    confirmed,
    entries,
    fastest_of,
    is_hopeful,
    is_void,
    level,
)
from codeflash_parallel.race.statistics.sequential_test import ArmStanding, too_noisy
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Trait, Verdict

#: Said of all gains where a second baseline came out different from the first.
_VOID = Doubt(
    code=Code.SUSPECT, reason="the baseline differs from itself by as much, so the race tells nothing"
)

#: Said of an arm that others were ahead of when the field was cut.
_CUT = " when the field was cut to save time"


class VerdictRules:
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
        winners: tuple[ArmComparison, ...],
    ) -> None:
        self._plan, self._void, self._winners = plan, void, winners
        self._outcomes = (*races, *confirmations)
        self._raced, self._tried = entries(races), entries(confirmations)
        self._short = _short(self._outcomes, plan)

    def of(self, arm: str) -> RankedCandidate:
        """Return what is said of one candidate."""
        out = self._out(arm)
        if out is not None:
            raced = self._raced.get(arm)
            return replace(out, speedup=raced.speedup if raced else None)
        entry = self._tried.get(arm) or self._raced[arm]
        code, reason = self._words(entry)
        status = CandidateStatus.LOST
        if code is Code.OK:
            status = CandidateStatus.WON if len(self._winners) == 1 else CandidateStatus.TIED
        elif Trait.UNMEASURED in code.traits and entry.speedup is None:
            status = CandidateStatus.UNDECIDED
        return RankedCandidate(
            id=arm, status=status, code=code, reason=reason, speedup=entry.speedup, groups=entry.groups
        )

    def _out(self, arm: str) -> RankedCandidate | None:
        """Return what is said of an arm that left its last race, or whose last race failed."""
        last = next(outcome for outcome in reversed(self._outcomes) if arm in outcome.candidates)
        if isinstance(last, RaceFailed):
            reason = last.reason.rstrip(".")
            return RankedCandidate(id=arm, status=CandidateStatus.INFRA, code=last.code, reason=reason)
        if arm not in last.out:
            return None
        out = last.out[arm]
        return RankedCandidate(id=arm, status=out.status, code=out.code, reason=out.reason)

    def _words(self, entry: ArmComparison) -> tuple[Code, str]:
        if any(entry.id == winner.id for winner in self._winners):
            return Code.OK, self._of_winner(entry)
        if entry.standing in {ArmStanding.FUTILE, ArmStanding.HOPELESS} or entry.gains_only_seen:
            return self._of_no_gain(entry)
        if entry.standing is ArmStanding.REGRESSES or self._seems_slower(entry):
            return Code.REGRESSES_TEST, f"{entry.times}, but slower in {entry.slowed}"
        if doubt := self._doubt(entry):
            words = "suspect: " if doubt.code is Code.SUSPECT else f"{entry.times}, but "
            return doubt.code, f"{words}{doubt.reason}"
        if self._winners:
            return self._beside(fastest_of(self._winners), entry)
        return self._of_open(entry) if entry.standing is ArmStanding.OPEN else self._of_untried(entry)

    def _of_no_gain(self, entry: ArmComparison) -> tuple[Code, str]:
        if entry.gains_only_seen:
            return Code.GAIN_ONLY_ON_SEEN_INPUTS, f"gains only on inputs that the tests know{entry.label}"
        return Code.NOT_FASTER, f"{entry.times}: not measurably faster than the baseline"

    def _seems_slower(self, entry: ArmComparison) -> bool:
        """Return whether an arm gains and is not credited, because a group of tests seems too slow."""
        return entry.standing is ArmStanding.OPEN and bool(entry.slowed) and self._gains(entry)

    def _doubt(self, entry: ArmComparison) -> Doubt | None:
        """Return why a confirmed gain is not credited; `None` where there is no doubt or no gain."""
        if entry.id not in self._tried or entry.standing is ArmStanding.OPEN:
            return None
        return _VOID if self._void else entry.doubt

    def _of_winner(self, entry: ArmComparison) -> str:
        words = f"{entry.times}, confirmed in new processes"
        if len(self._winners) > 1:
            others = ", ".join(w.id for w in self._winners if w.id != entry.id)
            words = f"{entry.times}, not to be told apart from {others}"
        return f"{words}{entry.label}{entry.note}"

    def _gains(self, entry: ArmComparison) -> bool:
        """Return whether an arm is faster than the baseline itself."""
        return entry.bound.low > entry.least_gain

    def _beside(self, best: ArmComparison, entry: ArmComparison) -> tuple[Code, str]:
        """Return what is said of an arm beside a winner: it lost by its figure, or was not confirmed."""
        leader = best if entry.id in self._tried else self._raced.get(best.id, best)
        if entry.standing is ArmStanding.BEATEN or self._is_beaten(entry):
            code = Code.BEATEN if self._gains(entry) else Code.NOT_FASTER
            return code, f"{entry.times}, beaten by {best.id} ({best.times})"
        is_behind = entry.bound.estimate < leader.bound.estimate and not alike(leader, entry)
        place = "behind" if is_behind else "not to be told apart from"
        cut = _CUT if entry.standing is ArmStanding.BEHIND else ""
        code = Code.NOT_CONFIRMED
        if is_behind and not self._gains(entry):
            code = Code.NOT_FASTER
        elif is_behind and entry.bound.high < leader.bound.low:
            code = Code.BEATEN
        where = f"{place} {best.id} ({leader.times} there){cut}"
        return code, f"{entry.times} in the race, {where}; not confirmed"

    def _is_beaten(self, entry: ArmComparison) -> bool:
        """Return whether a winner was surely faster than an arm in the race."""
        mine = self._raced.get(entry.id, entry)
        leaders = (self._raced[winner.id] for winner in self._winners if winner.id in self._raced)
        return any(beaten(leader, mine, self._plan) for leader in leaders)

    def _of_untried(self, entry: ArmComparison) -> tuple[Code, str]:
        # The attempts, or the slots, were spent on others, and none of them won: the race could not decide,
        # unless it had found better ones to follow.
        ahead = f", others were ahead{_CUT}" if entry.standing is ArmStanding.BEHIND else ""
        words = f"{entry.times} in the race{ahead}; not confirmed"
        if not is_hopeful(entry, self._plan):
            return Code.NOT_CONFIRMED, words
        if self._short:
            return Code.BUDGET_TOO_SMALL, f"{words}; {self._short}"
        return Code.TOO_NOISY, words

    def _of_open(self, entry: ArmComparison) -> tuple[Code, str]:
        if too_noisy(entry.bound, self._plan):
            if entry.raced.needed_ns:
                reason = f"{entry.times}: {self._short}" if entry.track.total else self._short
                return Code.BUDGET_TOO_SMALL, reason
            return Code.TOO_NOISY, entry.noise
        least = f"{100 * self._plan.min_speedup:g} %"
        return Code.NOT_FASTER, f"{entry.times}: a gain of {least} could not be shown"


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


def verdict_of(ranked: Sequence[RankedCandidate], winners: Sequence[ArmComparison]) -> Verdict:
    """Return what is said of all candidates together."""
    codes = {r.code for r in ranked}
    if winners:
        return Verdict.WINNER if len(winners) == 1 else Verdict.TIE
    if Code.SUSPECT in codes:
        return Verdict.SUSPECT
    if Code.BUDGET_TOO_SMALL in codes:
        return Verdict.BUDGET_TOO_SMALL
    unmeasured = any(Trait.UNMEASURED in code.traits for code in codes)
    return Verdict.TOO_NOISY if unmeasured else Verdict.NOTHING_FASTER


def summary(
    verdict: Verdict,
    order: Sequence[ArmComparison],
    ranked: Sequence[RankedCandidate],
    plan: RacePlan,
    merits: Mapping[str, TieBreakFacts],
) -> str:
    """Return the verdict as one sentence that can be quoted.

    Args:
        order: the winners, the best first.
        ranked: what is said of everybody.
        plan: the rules.
        merits: what orders a tie, by candidate.
    """

    def first(*codes: Code) -> RankedCandidate | None:
        return next((r for r in ranked if r.code in codes), None)

    if verdict is Verdict.WINNER:
        return f"{order[0].id} {_claim(order[0], plan, merits)}."
    if verdict is Verdict.TIE:
        names = ", ".join(entry.id for entry in order)
        why = _chosen([merits.get(entry.id, TieBreakFacts()) for entry in order])
        return f"Tie of {names}; {order[0].id} is named because {why}: it {_claim(order[0], plan, merits)}."
    if doubted := first(Code.SUSPECT):
        return f"{doubted.id} looks faster, but is {doubted.reason}."
    if unsure := first(Code.BUDGET_TOO_SMALL) or first(
        *(code for code in Code if Trait.UNMEASURED in code.traits)
    ):
        return f"The race could not decide: {unsure.id}: {unsure.reason}."
    if vetoed := first(Code.REGRESSES_TEST):
        return f"No candidate is faster without slowing tests too much: {vetoed.id}: {vetoed.reason}."
    known = first(Code.GAIN_ONLY_ON_SEEN_INPUTS)
    more = f" on inputs that the tests do not know: {known.id} {known.reason}" if known else ""
    return f"No candidate is measurably faster than the baseline{more}."


def _chosen(order: Sequence[TieBreakFacts]) -> str:
    """Return why the first of a tie is named."""
    first, *others = order
    if not first.hints and any(other.hints for other in others):
        return "nothing in it is to be reviewed"
    equal = [merit.inputs_equal for merit in order]
    if min(equal) < equal[0] == max(equal):
        return "it was found equal on more inputs"
    is_smallest = first.changed_lines == min(merit.changed_lines for merit in order)
    return "it is the smallest change" if is_smallest else "the ranking policy puts it first"


def _claim(entry: ArmComparison, plan: RacePlan, merits: Mapping[str, TieBreakFacts]) -> str:
    gain = entry.speedup
    assert gain is not None  # an arm is confirmed only where its lower bound is finite
    hints = merits.get(entry.id, TieBreakFacts()).hints
    more = f" and {len(hints) - 1} more" if len(hints) > 1 else ""
    review = f"; to be reviewed: {hints[0].rstrip('.')}{more}" if hints else ""
    return (
        f"is {gain.estimate:.2f} times as fast as the baseline ({100 * plan.confidence:g} % interval "
        f"{gain.low:.2f} to {gain.high:.2f}, {gain.clock} time){entry.label}{review}"
    )


def rank(
    races: Sequence[RaceOutcome],
    confirmations: Sequence[RaceOutcome],
    plan: RacePlan,
    merits: Mapping[str, TieBreakFacts],
    policy: Policy = fastest,
) -> RaceRanking:
    """Return the verdict.

    Args:
        races: every candidate is in one of them.
        confirmations: as `contenders` asked for them.
        plan: the rules.
        merits: what a policy may go by, by candidate.
        policy: names the winner of a tie.

    Raises:
        UsageError: the policy is wrong.
    """
    void = is_void(confirmations)
    sound = [outcome for outcome in confirmations if not is_void([outcome])]
    winners = _unbeaten(confirmed(sound, plan), entries(races), plan)
    order = _ordered(winners, plan, merits, policy)
    top = order[0] if order else None
    judge = VerdictRules(races, confirmations, plan, void=void, winners=tuple(order))
    # A leader races again when refinements of it do; the last race counts.
    ids = dict.fromkeys(arm for outcome in races for arm in outcome.candidates)
    ranked = tuple(judge.of(arm) for arm in ids)
    verdict = verdict_of(ranked, order)
    return RaceRanking(
        verdict=verdict,
        winner=top.id if top else "",
        tie_set=tuple(entry.id for entry in order) if len(order) > 1 else (),
        candidates=ranked,
        summary=summary(verdict, order, ranked, plan, merits),
        notes=tuple(
            dict.fromkeys(n for o in (*races, *confirmations) if isinstance(o, Raced) for n in o.notes)
        ),
    )


def _unbeaten(
    winners: Sequence[ArmComparison], raced: Mapping[str, ArmComparison], plan: RacePlan
) -> tuple[ArmComparison, ...]:
    """Return those whom no other one, confirmed apart from them, beat in the race that both were in."""

    def lost_to(entry: ArmComparison, other: ArmComparison) -> bool:
        mine, its = raced.get(entry.id), raced.get(other.id)
        return bool(mine and its and mine.raced is its.raced and beaten(its, mine, plan))

    return tuple(
        entry
        for entry in winners
        if not any(entry.raced is not other.raced and lost_to(entry, other) for other in winners)
    )


def _ordered(
    winners: Sequence[ArmComparison], plan: RacePlan, merits: Mapping[str, TieBreakFacts], policy: Policy
) -> list[ArmComparison]:
    """Return the equally fast in the order of a policy; one alone needs none."""
    if len(winners) < 2:  # noqa: PLR2004 - one
        return [*winners]
    leader = fastest_of(winners)
    by_id = {entry.id: entry for entry in winners}
    tied = [
        TiedCandidate(
            id=entry.id,
            speedup=exp(entry.bound.estimate),
            low=exp(entry.bound.low),
            high=exp(entry.bound.high),
            is_level=level(leader, entry, plan),
            **asdict(merits.get(entry.id, TieBreakFacts())),
        )
        for entry in winners
    ]
    return [by_id[name] for name in ordered(policy, tied)]
