from __future__ import annotations

from dataclasses import replace
from math import log

from effort import TIMES, drawn
from hypothesis import given, settings
from hypothesis import strategies as st
from ranking_cases import CONFIRM, PLAN, held, single, standing, twinned

from codeflash_parallel.race.measurement import DecidingClock
from codeflash_parallel.race.plan import MAX_CONFIRMATIONS, NULL, CostGroup
from codeflash_parallel.race.race_result import POLICIES, Disqualification, RaceFailed, TieBreakFacts, fastest
from codeflash_parallel.race.ranking.arm_comparison import contenders
from codeflash_parallel.race.ranking.candidate_ranking import rank
from codeflash_parallel.race.statistics.log_ratios import ArmLogRatios
from codeflash_parallel.race.statistics.sequential_test import ArmStanding, InterimState, look
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Verdict


def play(races, truth, *, limit=4, sd=0.01, merits=None, policy=fastest, **options):
    """Confirm as the engine does, and rank."""
    confirmations = []
    while ids := contenders(races, confirmations, PLAN, limit=limit):
        assert len(ids) <= limit
        confirmations.append(held({i: truth[i] for i in ids}, CONFIRM, sd=sd, seed=99, **options))
    return rank(races, confirmations, PLAN, merits or {}, policy), confirmations


def sized(**lines):
    return {name: TieBreakFacts(changed_lines=count) for name, count in lines.items()}


def test_a_clear_winner_wins_and_the_others_hear_why():
    truth = {"fast": 1.5, "medium": 1.2, "same": 1.0, "slow": 0.7}

    ranking, confirmations = play([held(truth)], truth)

    assert (ranking.verdict, ranking.winner, ranking.tie_set) == (Verdict.WINNER, "fast", ())
    codes = {r.id: (r.status, r.code) for r in ranking.candidates}
    assert codes == {
        "fast": (CandidateStatus.WON, Code.OK),
        "medium": (CandidateStatus.LOST, Code.BEATEN),
        "same": (CandidateStatus.LOST, Code.NOT_FASTER),
        "slow": (CandidateStatus.LOST, Code.NOT_FASTER),
    }
    assert [c.candidates for c in confirmations] == [("fast",)]
    won, medium = ranking.of("fast"), ranking.of("medium")
    assert won.speedup.stage == "confirmation"
    assert 1.4 < won.speedup.low <= won.speedup.estimate <= won.speedup.high < 1.6
    assert medium.speedup.stage == "race"
    assert "fast is 1.5" in ranking.summary
    assert ranking.of("nobody") is None


def test_a_gain_of_some_per_cent_in_the_race_alone_may_be_an_accident_of_addresses():
    truth = {"fast": 1.5, "hair": 1.08}

    ranking, _ = play([held(truth, sd=0.002)], truth, sd=0.002)

    hair = ranking.of("hair")
    assert hair.speedup.low > 1 + PLAN.min_speedup
    assert (hair.status, hair.code) == (CandidateStatus.LOST, Code.NOT_FASTER)


def test_the_smallest_diff_of_a_tie_is_taken():
    truth, sizes = {"big": 1.5, "small": 1.5, "less": 1.1}, sized(big=900, small=10, less=1)

    ranking, _ = play([held(truth, sd=0.004)], truth, sd=0.004, merits=sizes)

    assert (ranking.verdict, ranking.winner, ranking.tie_set) == (Verdict.TIE, "small", ("small", "big"))
    assert [ranking.of(a).status for a in truth] == [
        CandidateStatus.TIED,
        CandidateStatus.TIED,
        CandidateStatus.LOST,
    ]
    assert "Tie of small, big; small is named because it is the smallest change: it is 1.5" in ranking.summary


def test_a_small_diff_that_may_be_slower_is_named_only_if_so_wished():
    """In noise, the second can neither be told apart from the first nor is it surely level."""
    truth, sizes = {"fast": 1.5, "small": 1.48}, sized(fast=900, small=10)
    races = [held(truth, sd=0.03, seed=5)]

    usual, _ = play(races, truth, sd=0.03, merits=sizes)
    wished, _ = play(races, truth, sd=0.03, merits=sizes, policy=POLICIES["smallest-diff"])

    assert (usual.winner, usual.tie_set) == ("fast", ("fast", "small"))
    assert (wished.winner, wished.tie_set) == ("small", ("small", "fast"))
    assert "the ranking policy puts it first" in usual.summary


def test_a_policy_of_the_user_names_the_winner():
    truth = {"a": 1.5, "b": 1.5}

    ranking, _ = play([held(truth)], truth, policy=lambda tied: sorted((t.id for t in tied), reverse=True))

    assert ranking.tie_set == ("b", "a")


def test_who_is_level_but_not_confirmed_says_so():
    truth = {"a": 1.5, "b": 1.5, "c": 1.5}

    ranking, _ = play([held(truth)], truth, limit=2)

    assert len(ranking.tie_set) == 2
    (rest,) = {*truth} - {*ranking.tie_set}
    assert (ranking.of(rest).status, ranking.of(rest).code) == (CandidateStatus.LOST, Code.NOT_CONFIRMED)
    assert "x in the race, " in ranking.of(rest).reason
    assert ranking.of(rest).reason.endswith("; not confirmed")


def test_who_was_behind_when_the_field_was_cut_lost_by_its_figure():
    plan, truth = replace(PLAN, dear=True), {"a": 1.5, "b": 1.49, "c": 1.48}

    ranking, _ = play([held(truth, plan, sd=0.05)], truth)

    assert ranking.verdict is Verdict.WINNER
    behind = [ranking.of(name) for name in truth if name != ranking.winner]
    assert {r.status for r in behind} == {CandidateStatus.LOST}
    assert all(f" {ranking.winner} (" in r.reason and "field was cut" in r.reason for r in behind)


def test_gains_so_large_that_nothing_is_left_to_tell_them_apart_are_a_tie():
    """Both take a seven-thousandth of the time; who was cut, with the higher figure, is confirmed as well."""
    truth, cut = {"winner": 7000.0, "cut": 7200.0, "slow": 1.2}, {"cut": ArmStanding.BEHIND}
    race = held(truth, sd=0.3)
    race = replace(race, looks=replace(race.looks, standings={**race.looks.standings, **cut}))

    ranking, _ = play([race], truth, sd=0.3)

    assert ranking.verdict is Verdict.TIE
    assert {*ranking.tie_set} == {"winner", "cut"}
    alone = rank([race], [held({"winner": 7000.0}, CONFIRM, sd=0.3)], PLAN, {})
    assert alone.of("cut").status is CandidateStatus.LOST
    assert "not to be told apart from winner (" in alone.of("cut").reason


def test_what_needs_a_review_comes_last_of_a_tie_and_the_verdict_says_so():
    truth, hints = {"big": 1.5, "small": 1.5}, ("it differs.", "it adds gc")
    big, small = TieBreakFacts(changed_lines=900), TieBreakFacts(changed_lines=10)

    def named(**merits):
        return play([held(truth, sd=0.004)], truth, sd=0.004, merits=merits)[0]

    reviewed = named(big=big, small=replace(small, inputs_equal=9, hints=hints))
    proven = named(big=replace(big, inputs_equal=10), small=replace(small, inputs_equal=9))
    both = named(big=replace(big, hints=hints), small=replace(small, hints=hints))

    assert reviewed.tie_set == ("big", "small")
    assert "Tie of big, small; big is named because nothing in it is to be reviewed: it" in reviewed.summary
    assert proven.tie_set == ("big", "small")
    assert "because it was found equal on more inputs: it is 1.5" in proven.summary
    assert both.winner == "small"
    assert both.summary.endswith("cpu time); to be reviewed: it differs and 1 more.")


def test_a_winner_to_be_reviewed_says_so_in_the_first_sentence():
    truth = {"a": 1.5}

    ranking, _ = play([held(truth)], truth, merits={"a": TieBreakFacts(hints=("it differs elsewhere",))})

    assert ranking.summary.endswith("cpu time); to be reviewed: it differs elsewhere.")


def test_nothing_faster():
    truth = {"a": 1.0, "b": 0.9}

    ranking, _ = play([held(truth)], truth)

    assert (ranking.verdict, ranking.winner) == (Verdict.NOTHING_FASTER, "")
    assert {r.code for r in ranking.candidates} == {Code.NOT_FASTER}


def test_noise_is_said():
    truth = {"a": 1.0, "b": 1.0}

    ranking, _ = play([held(truth, sd=0.5)], truth, sd=0.5)

    assert ranking.verdict is Verdict.TOO_NOISY
    noisy = [r for r in ranking.candidates if r.code is Code.TOO_NOISY]
    assert noisy
    assert all(r.speedup and "would have needed about" in r.reason for r in noisy)
    assert {r.status for r in noisy} == {CandidateStatus.LOST}


def test_what_a_large_gain_would_have_needed_is_said_of_that_gain():
    """The budget ended soon: to be sure of so much takes a few rounds more, not those for five per cent."""
    truth = {"a": 4.0}
    short = replace(held(truth, plan=CONFIRM), stopped="the budget was spent after 5 rounds")
    cut = {
        name: replace(t, total=t.total[:5], groups=tuple(g[:5] for g in t.groups))
        for name, t in short.tracks.items()
    }
    short = replace(short, tracks=cut, looks=InterimState(candidates=("a",)))

    said = rank([held(truth)], [short], PLAN, {}).of("a")

    assert said.code is Code.TOO_NOISY
    assert (
        "too noisy: 3.97x, rounds scatter by 1 %, a gain of 297 % would have needed about 1 s" in said.reason
    )
    assert said.reason.endswith("(the budget was spent after 5 rounds)")


def test_a_leader_that_is_not_confirmed_makes_room_for_the_next():
    seen, truth = {"fluke": 1.6, "solid": 1.3}, {"fluke": 1.0, "solid": 1.3}

    ranking, confirmations = play([held(seen)], truth)

    assert [c.candidates for c in confirmations] == [("fluke",), ("solid",)]
    assert (ranking.verdict, ranking.winner) == (Verdict.WINNER, "solid")
    assert ranking.of("fluke").code is Code.NOT_FASTER
    assert ranking.of("fluke").speedup.stage == "confirmation"


def test_a_claim_of_an_earlier_round_stands_beside_a_race_that_leaves_it_open():
    first, later = held({"a": 1.5}, CONFIRM), held({"a": 1.03, "r": 1.0}, sd=0.05, seed=3)

    assert rank([later], [], PLAN, {}).winner == ""
    assert rank([later], [first], PLAN, {}).winner == "a"


def test_who_is_beaten_in_a_race_is_no_winner_beside_who_beat_it():
    first, race = held({"a": 1.5}, CONFIRM), held({"a": 1.5, "r": 1.65})
    anew = held({"r": 1.6}, CONFIRM, sd=0.1, seed=4)

    alone, both = rank([race], [first], PLAN, {}), rank([race], [anew, first], PLAN, {})

    assert (alone.verdict, alone.winner) == (Verdict.WINNER, "a")
    assert (both.verdict, both.winner) == (Verdict.WINNER, "r")
    assert both.of("a").code is Code.BEATEN


def test_attempts_are_limited():
    seen = {f"c{i}": 2.0 - i / 5 for i in range(5)}

    ranking, confirmations = play([held(seen)], dict.fromkeys(seen, 1.0))

    assert len(confirmations) == MAX_CONFIRMATIONS
    assert ranking.winner == ""


def test_batches_are_compared_by_their_intervals():
    truth = {"a": 1.2, "b": 1.0, "c": 1.5, "d": 1.5}

    ranking, confirmations = play([held({"a": 1.2, "b": 1.0}), held({"c": 1.5, "d": 1.5}, seed=1)], truth)

    assert {*confirmations[0].candidates} == {"c", "d"}
    assert ranking.verdict is Verdict.TIE
    assert [r.id for r in ranking.candidates] == ["a", "b", "c", "d"]
    assert ranking.of("a").code is Code.BEATEN


def test_an_arm_that_left_keeps_its_reason():
    ranking, _ = play([held({"bad": 3.0, "good": 1.3}, out=("bad",))], {"good": 1.3})

    assert ranking.winner == "good"
    assert (ranking.of("bad").status, ranking.of("bad").reason) == (CandidateStatus.REJECTED, "wrong")


def test_a_race_that_failed_blames_no_candidate():
    for code in (Code.INFRA_SLOT, Code.INFRA_MEMORY):
        failed = RaceFailed(candidates=("a",), reason="The baseline died.", code=code)
        ranking = rank([failed], [], PLAN, {})

        assert (ranking.of("a").status, ranking.of("a").code) == (CandidateStatus.INFRA, code)
        assert ranking.verdict is Verdict.TOO_NOISY


def test_a_confirmation_that_failed_is_held_again():
    races, failed = [held({"a": 1.5})], RaceFailed(candidates=("a",), reason="The baseline died.")

    assert contenders(races, [failed], PLAN, limit=2) == ("a",)
    ranking = rank(races, [failed, held({"a": 1.5}, CONFIRM)], PLAN, {})

    assert ranking.winner == "a"


def test_a_baseline_unlike_itself_voids_the_run():
    ranking, _ = play([held({"a": 1.1})], {"a": 1.1}, null=0.1)

    assert (ranking.verdict, ranking.winner) == (Verdict.SUSPECT, "")
    assert (ranking.of("a").status, ranking.of("a").code) == (CandidateStatus.LOST, Code.SUSPECT)


def test_a_gain_on_seen_inputs_only_is_not_credited():
    truth, unseen = {"memo": 3.0, "honest": 1.3}, {"memo": 0.9}

    alone, _ = play([held({"memo": 3.0}, unseen=unseen)], {"memo": 3.0}, unseen=unseen)
    both, confirmations = play([held(truth, unseen=unseen)], truth, unseen=unseen)

    for ranking in (alone, both):
        said = ranking.of("memo")
        assert (said.status, said.code) == (CandidateStatus.LOST, Code.GAIN_ONLY_ON_SEEN_INPUTS)
        assert said.speedup.estimate < 1
        assert "x on the tests' calls, 0.90x on unseen ones" in said.reason
    assert "on inputs that the tests do not know: memo gains only on inputs" in alone.summary
    assert (both.winner, [c.candidates for c in confirmations]) == ("honest", [("honest",)])


def test_some_per_cent_that_a_race_shows_on_unseen_inputs_are_no_gain_on_them():
    truth, unseen = {"fast": 20.0, "table": 13.0}, {"table": 1.02}

    ranking, _ = play([held(truth, unseen=unseen, sd=0.001)], truth, unseen=unseen, sd=0.001)

    assert ranking.winner == "fast"
    assert ranking.of("table").code is Code.GAIN_ONLY_ON_SEEN_INPUTS


def test_a_race_that_is_cut_off_does_not_say_that_a_gain_is_one_on_seen_inputs_only():
    truth, unseen = {"a": 80.0}, {"a": 40.0}
    short = replace(CONFIRM, max_rounds=7)

    ranking = rank([held(truth, unseen=unseen)], [held(truth, short, unseen=unseen)], PLAN, {})

    assert ranking.of("a").code not in {Code.GAIN_ONLY_ON_SEEN_INPUTS, Code.OK}


def test_a_memo_in_faster_code_claims_what_it_gains_on_unseen_inputs():
    unseen = {"a": 1.5}

    ranking, _ = play([held({"a": 40.0}, unseen=unseen)], {"a": 40.0}, unseen=unseen)

    assert ranking.winner == "a"
    assert 1.4 < ranking.of("a").speedup.estimate < 1.6
    assert "x on the tests' calls, 1.5" in ranking.summary


def test_repeats_count_where_the_user_says_so():
    plan = replace(PLAN, count_repeats=True)

    race, again = (held({"a": 3.0}, p, unseen={"a": 0.9}) for p in (plan, plan.confirmation(10**9)))

    assert rank([race], [again], plan, {}).winner == "a"


def test_where_twins_tell_the_baseline_from_itself_they_demote_nobody():
    again = held({"a": 3.0}, CONFIRM)
    null = twinned((0.0,) * 12, 0.5)
    again = replace(again, tracks={"a": twinned(again.tracks["a"].total, 0.3), NULL: null})

    assert rank([held({"a": 3.0})], [again], PLAN, {}).winner == "a"


def test_those_who_lagged_come_back_when_the_leader_is_found_out():
    race = held({"cheat": 4.0, "a": 1.5, "b": 1.5, "slow": 1.1})
    out = Disqualification(status=CandidateStatus.REJECTED, code=Code.NOT_CONFIRMED, reason="wrong")

    assert {race.standing(name) for name in ("a", "b", "slow")} == {ArmStanding.BEHIND}
    assert contenders([race], [], PLAN, limit=4) == ("cheat",)
    assert {*contenders([replace(race, out={"cheat": out})], [], PLAN, limit=4)} == {"a", "b"}


def test_a_slower_group_is_named():
    plan = replace(PLAN, groups=(CostGroup(name="t1", ns=9), CostGroup(name="t2", ns=1)))
    track = ArmLogRatios(total=(0.3,) * 24, groups=((0.5,) * 24, (-0.1,) * 24), clock=DecidingClock.CPU)
    raced = replace(
        held({"a": 1.5}), plan=plan, tracks={"a": track}, looks=standing("a", ArmStanding.REGRESSES)
    )

    ranking = rank([raced], [], plan, {})

    assert (ranking.of("a").code, ranking.verdict) == (Code.REGRESSES_TEST, Verdict.NOTHING_FASTER)
    assert "t2" in ranking.of("a").reason
    assert [name for name, _ in ranking.of("a").groups] == ["t1", "t2"]


def vetoed(total, group, *, share=0.5, call_ns=50.0):
    """What is said of an arm of which the whole and the second group of tests gain so much."""
    plan = replace(
        PLAN,
        groups=(
            CostGroup(name="t1", ns=1000 - round(1000 * share)),
            CostGroup(name="t2", ns=round(1000 * share)),
        ),
    )
    values = (log(total),) * 24, (log(group),) * 24
    track = ArmLogRatios(total=values[0], groups=values, clock=DecidingClock.CPU, calls_ns=(1e6, call_ns))
    state = look(InterimState(candidates=("a",)), {"a": track}, replace(plan, stage=CONFIRM.stage))
    raced = replace(
        held({"a": total}, CONFIRM), plan=replace(plan, stage=CONFIRM.stage), tracks={"a": track}, looks=state
    )
    return rank([raced], [raced], plan, {})


def test_a_group_vetoes_a_gain_only_if_it_matters_or_loses_much():
    tiny = vetoed(2.5, 0.94, call_ns=900)
    small = vetoed(1.3, 0.94, share=0.05)
    heavy = vetoed(1.3, 0.94)
    half_of_tiny, half_of_long = vetoed(2.5, 0.6, call_ns=900), vetoed(2.5, 0.6, call_ns=90_000)

    assert (tiny.winner, small.winner, half_of_tiny.winner) == ("a", "a", "a")
    assert tiny.of("a").reason.endswith("; slower in t2 (0.94x)")
    for ranking, figure in ((heavy, "0.94x"), (half_of_long, "0.60x")):
        assert (ranking.winner, ranking.of("a").code) == ("", Code.REGRESSES_TEST)
        assert (
            f"slowing tests too much: a: {ranking.of('a').speedup.estimate:.2f}x, but slower in t2 ({figure})"
            in ranking.summary
        )


def test_a_group_that_only_seems_slower_withholds_the_win():
    plan = replace(PLAN, groups=(CostGroup(name="t1", ns=9), CostGroup(name="t2", ns=1)))
    track = ArmLogRatios(
        total=(0.3,) * 24, groups=((0.5,) * 24, (-0.1, -0.1, 0.1) * 8), clock=DecidingClock.CPU
    )
    raced = replace(held({"a": 1.5}), plan=plan, tracks={"a": track}, looks=standing("a", ArmStanding.OPEN))

    ranking = rank([raced], [raced], plan, {})

    said = ranking.of("a")
    assert (said.status, said.code, ranking.winner) == (CandidateStatus.LOST, Code.REGRESSES_TEST, "")
    assert "t2" in ranking.of("a").reason


gains = st.dictionaries(
    st.sampled_from("abcdef"), st.sampled_from([0.5, 0.97, 1.0, 1.03, 1.3, 2.0, 60.0]), min_size=1
)


@settings(max_examples=drawn(25 * TIMES))
@given(gains, st.sampled_from([0.001, 0.03, 0.4]), st.integers(0, 99), st.integers(1, 4))
def test_every_ranking_is_coherent(truth, sd, seed, limit):
    ranking, _ = play([held(truth, sd=sd, seed=seed)], truth, sd=sd, limit=limit)

    assert [r.id for r in ranking.candidates] == list(truth)
    assert bool(ranking.winner) == (ranking.verdict in {Verdict.WINNER, Verdict.TIE})
    assert (len(ranking.tie_set) > 1) == (ranking.verdict is Verdict.TIE)
    statuses = [r.status for r in ranking.candidates]
    assert statuses.count(CandidateStatus.WON) == (ranking.verdict is Verdict.WINNER)
    assert statuses.count(CandidateStatus.TIED) == len(ranking.tie_set)
    for ranked in ranking.candidates:
        assert ranked.reason
        assert ranked.status is not CandidateStatus.LOST or ranked.code is not Code.OK
        assert ranked.status is not CandidateStatus.UNDECIDED or ranked.speedup is None
        assert ranked.code is not Code.BEATEN or ranking.winner


def _cut(gains):
    """A race of a large field that was cut twice, before anything could be shown."""
    values = {
        arm: [log(gain) + noise for noise in (0.03, -0.03, 0.02, -0.02, 0.0, 0.0)]
        for arm, gain in gains.items()
    }
    state = InterimState(candidates=tuple(gains))
    for number in range(1, 7):
        state = look(state, {arm: single(values[arm][:number]) for arm in state.living}, PLAN)
    return replace(held(gains), looks=state, tracks={arm: single(v) for arm, v in values.items()})


def test_who_was_cut_without_seeming_worth_it_is_not_tried_and_does_not_make_a_race_noisy():
    gains = {f"c{number}": 1.0 + number / 10_000 for number in range(8)}
    race = _cut(gains)

    assert contenders([race], [], PLAN, limit=8) == ()
    cut = rank([race], [], PLAN, {}).of("c0")
    assert (cut.status, cut.code) == (CandidateStatus.LOST, Code.NOT_CONFIRMED)
    assert "field was cut" in cut.reason


def test_who_was_cut_and_seemed_worth_it_is_tried():
    gains = {f"c{number}": 1.025 + number / 10_000 for number in range(8)}

    assert "c5" in contenders([_cut(gains)], [], PLAN, limit=8)
