"""From what races measured to a verdict. Pure.

A race finds leaders; only a confirmation makes a claim. The caller asks `contenders` whom to confirm until
it names nobody, and then asks `rank` for the verdict::

    while ids := contenders(races, confirmations, plan, limit=slots):
        again = confirmation_of(races, confirmations, plan, ids)
        confirmations.append(await race(bench, baseline, arms(ids), again, random=random))
    ranking = rank(races, confirmations, plan, diff_sizes)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log1p

from codeflash_parallel.benchmark.decide import Standing, too_noisy
from codeflash_parallel.benchmark.entries import Entry, beaten, confirmed, entries, fastest_of, is_void, level
from codeflash_parallel.benchmark.plan import MAX_CONFIRMATIONS, RacePlan
from codeflash_parallel.benchmark.policy import Policy, Tied, fastest, ordered
from codeflash_parallel.benchmark.raced import Raced, RaceFailed, RaceOutcome
from codeflash_parallel.model.outcome import Code, Status, Verdict
from codeflash_parallel.model.result import Speedup

#: How the reason of a doubted candidate begins.
SUSPECT = "suspect: "


#: What attempts, one after the other, may spend of the error budget; there are no more than these. Those
#: whose gain is doubted do not count towards `MAX_CONFIRMATIONS`: three caches must not hide who is faster.
#: Little is left for those that come late, so that the first ones need hardly more rounds for it.
SHARES = (1 / 4,) * MAX_CONFIRMATIONS + (1 / 12,) * 3

#: Who may be confirmed. What stayed open in the longer race would do so in the shorter confirmation.
_HOPEFUL = frozenset({Standing.FASTER, Standing.BEATEN, Standing.BEHIND})

#: Who the race could not decide about: it says nothing about how fast they are.
_UNDECIDED = frozenset({Code.TOO_NOISY, Code.INFRA_SLOT, Code.INFRA_MEMORY})

#: Who shows a gain.
_GAINED = frozenset({Standing.FASTER, Standing.BEATEN})


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranked:
    """What the races say of one candidate.

    Attributes:
        reason: one clause, no full stop.
        speedup: of the confirmation where there was one, else of the race; `None` with too few rounds.
        groups: speedups by group of tests.
    """

    id: str
    status: Status
    code: Code
    reason: str
    speedup: Speedup | None = None
    groups: tuple[tuple[str, Speedup], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranking:
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
    candidates: tuple[Ranked, ...]
    summary: str
    notes: tuple[str, ...] = ()

    def of(self, candidate: str) -> Ranked | None:
        """Return what is said of one candidate, `None` if it never raced."""
        return next((ranked for ranked in self.candidates if ranked.id == candidate), None)


def contenders(
    races: Sequence[RaceOutcome], confirmations: Sequence[RaceOutcome], plan: RacePlan, *, limit: int
) -> tuple[str, ...]:
    """Return whom to confirm next, the fastest first; empty when the verdict can be given.

    They are the fastest of those not yet tried, and whoever could not be told apart from it.

    Args:
        races: of all batches.
        confirmations: held so far.
        plan: the rules.
        limit: how many can be confirmed at once.
    """
    if _are_spent(confirmations) or confirmed(confirmations, plan) or is_void(confirmations):
        return ()
    # Where a confirmation failed as a whole, its arms are tried again.
    tried = {arm for outcome in confirmations if isinstance(outcome, Raced) for arm in outcome.candidates}
    hopeful = [e for e in entries(races).values() if e.id not in tried and _is_hopeful(e, plan)]
    ranked = sorted(hopeful, key=lambda entry: -entry.bound.estimate)
    return tuple(entry.id for entry in ranked if _goes_with(ranked[0], entry, plan))[:limit]


def _is_hopeful(entry: Entry, plan: RacePlan) -> bool:
    """Return whether an arm may be confirmed; one that was cut only if it seemed worth finding."""
    goal = plan.worth_finding if entry.standing is Standing.BEHIND else plan.min_speedup
    return entry.standing in _HOPEFUL and entry.bound.estimate > log1p(goal)


def _are_spent(confirmations: Sequence[RaceOutcome]) -> bool:
    """Return whether no more attempts may be made."""
    counted = [outcome for outcome in confirmations if not _is_doubted(outcome)]
    return len(counted) >= MAX_CONFIRMATIONS or len(confirmations) >= len(SHARES)


def _is_doubted(outcome: RaceOutcome) -> bool:
    """Return whether a confirmation shows a gain that is not credited."""
    return any(entry.standing in _GAINED and entry.doubt for entry in entries([outcome]).values())


def confirmation_of(
    races: Sequence[RaceOutcome], confirmations: Sequence[RaceOutcome], plan: RacePlan, ids: Sequence[str]
) -> RacePlan:
    """Return the rules by which those whom `contenders` names are confirmed.

    Args:
        races: of all batches.
        confirmations: held so far.
        plan: of the races.
        ids: whom to confirm.
    """
    arms = [entry for name, entry in entries(races).items() if name in ids]
    gain = max(exp(entry.bound.estimate) for entry in arms)
    is_uneven = any(entry.raced.tracks[entry.id].is_uneven for entry in arms)
    again = plan.confirmation(plan.budget_ns, gain, is_uneven=is_uneven)
    return replace(again, share=SHARES[len(confirmations)])


def _goes_with(first: Entry, other: Entry, plan: RacePlan) -> bool:
    """Return whether an arm is confirmed together with the first; whoever was cut waits until that fails."""
    if other is first:
        return True
    return other.standing is not Standing.BEHIND and not beaten(first, other, plan)


def rank(
    races: Sequence[RaceOutcome],
    confirmations: Sequence[RaceOutcome],
    plan: RacePlan,
    diff_sizes: Mapping[str, int],
    policy: Policy = fastest,
) -> Ranking:
    """Return the verdict.

    Args:
        races: of all batches; every candidate is in one of them.
        confirmations: as `contenders` asked for them.
        plan: the rules.
        diff_sizes: changed lines by candidate.
        policy: names the winner of a tie.

    Raises:
        UsageError: the policy is wrong.
    """
    void = is_void(confirmations)
    sound = [outcome for outcome in confirmations if not is_void([outcome])]
    winners = _unbeaten(confirmed(sound, plan), entries(races), plan)
    order = _ordered(winners, plan, diff_sizes, policy)
    top = order[0] if order else None
    judge = _Judge(races, confirmations, plan, void, tuple(order))
    # A leader races again when refinements of it do; the last race counts.
    ids = dict.fromkeys(arm for outcome in races for arm in outcome.candidates)
    ranked = tuple(judge.of(arm) for arm in ids)
    verdict = _verdict(ranked, order)
    return Ranking(
        verdict=verdict,
        winner=top.id if top else "",
        tie_set=tuple(entry.id for entry in order) if len(order) > 1 else (),
        candidates=ranked,
        summary=_summary(verdict, order, ranked, plan, diff_sizes),
        notes=tuple(
            dict.fromkeys(n for o in (*races, *confirmations) if isinstance(o, Raced) for n in o.notes)
        ),
    )


def _unbeaten(winners: Sequence[Entry], raced: Mapping[str, Entry], plan: RacePlan) -> tuple[Entry, ...]:
    """Return those whom no other one, confirmed apart from them, beat in the race that both were in."""

    def lost_to(entry: Entry, other: Entry) -> bool:
        mine, its = raced.get(entry.id), raced.get(other.id)
        return bool(mine and its and mine.raced is its.raced and beaten(its, mine, plan))

    return tuple(
        entry
        for entry in winners
        if not any(entry.raced is not other.raced and lost_to(entry, other) for other in winners)
    )


def _ordered(
    winners: Sequence[Entry], plan: RacePlan, diff_sizes: Mapping[str, int], policy: Policy
) -> list[Entry]:
    """Return the equally fast in the order of a policy; one alone needs none."""
    if len(winners) < 2:  # noqa: PLR2004 - one
        return [*winners]
    leader = fastest_of(winners)
    by_id = {entry.id: entry for entry in winners}
    tied = [
        Tied(
            id=entry.id,
            speedup=exp(entry.bound.estimate),
            low=exp(entry.bound.low),
            high=exp(entry.bound.high),
            changed_lines=diff_sizes.get(entry.id, 0),
            is_level=level(leader, entry, plan),
        )
        for entry in winners
    ]
    return [by_id[name] for name in ordered(policy, tied)]


def _verdict(ranked: Sequence[Ranked], winners: Sequence[Entry]) -> Verdict:
    if winners:
        return Verdict.WINNER if len(winners) == 1 else Verdict.TIE
    if any(r.reason.startswith(SUSPECT) for r in ranked):
        return Verdict.SUSPECT
    if any(r.code in _UNDECIDED for r in ranked):
        return Verdict.TOO_NOISY
    return Verdict.NOTHING_FASTER


class _Judge:
    """Says what became of each candidate."""

    def __init__(
        self,
        races: Sequence[RaceOutcome],
        confirmations: Sequence[RaceOutcome],
        plan: RacePlan,
        void: bool,  # noqa: FBT001 - private
        winners: tuple[Entry, ...],
    ) -> None:
        self._plan, self._void, self._winners = plan, void, winners
        self._outcomes = (*races, *confirmations)
        self._raced, self._tried = entries(races), entries(confirmations)

    def of(self, arm: str) -> Ranked:
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
            # Beaten are those who are faster than the baseline themselves; the others just are not.
            code = Code.BEATEN if entry.bound.low > 0 else Code.NOT_FASTER
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
        is_decided = self._winners or not _is_hopeful(entry, self._plan)
        code = Code.NOT_CONFIRMED if is_decided else Code.TOO_NOISY
        return Status.UNDECIDED, code, f"{entry.times} in the race, {why}"

    def _of_open(self, entry: Entry) -> tuple[Status, Code, str]:
        least = f"{100 * self._plan.min_speedup:g} %"
        if entry.bound.low > log1p(self._plan.min_speedup):
            reason = f"{entry.times}, but it seems to be slower in {entry.slowed}"
            return Status.UNDECIDED, Code.NOT_CONFIRMED, reason
        if too_noisy(entry.bound, self._plan):
            return Status.UNDECIDED, Code.TOO_NOISY, entry.noise
        return Status.LOST, Code.NOT_FASTER, f"{entry.times}: a gain of {least} could not be shown"


def _of_loser(entry: Entry) -> tuple[Status, Code, str]:
    match entry.standing:
        case Standing.REGRESSES:
            return Status.LOST, Code.REGRESSES_TEST, f"{entry.times}, but slower in {entry.slowed}"
        case _:
            return Status.LOST, Code.NOT_FASTER, f"{entry.times}: not measurably faster than the baseline"


def _summary(
    verdict: Verdict,
    order: Sequence[Entry],
    ranked: Sequence[Ranked],
    plan: RacePlan,
    diff_sizes: Mapping[str, int],
) -> str:
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
        case Verdict.TOO_NOISY:
            unsure = next(r for r in ranked if r.code in _UNDECIDED)
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
