from __future__ import annotations

from dataclasses import replace
from math import log
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.benchmark.decide import Looks, Standing, drop, look
from codeflash_parallel.benchmark.plan import BASELINE, MAX_CONFIRMATIONS, NULL, Group, RacePlan
from codeflash_parallel.benchmark.raced import Out, Raced, RaceFailed
from codeflash_parallel.benchmark.rank import contenders, rank
from codeflash_parallel.benchmark.samples import Block, BlockKind, Clock, Round, Track
from codeflash_parallel.model.outcome import Code, Status, Verdict

PLAN = RacePlan(groups=(Group(name="all", ns=1),))
CONFIRM = PLAN.confirmation(10**9)


def single(values):
    return Track(total=tuple(values), groups=(tuple(values),), clock=Clock.CPU)


def held(gains, plan=PLAN, *, sd=0.01, seed=0, out=(), null=0.0, rounds=()):
    """Hold a simulated race of arms with these true speedups."""
    random = Random(seed)
    noise = [random.gauss(0, sd) for _ in range(48)]
    full = {a: [log(g) + n + random.gauss(0, sd) for n in noise] for a, g in gains.items()}
    state = Looks(candidates=tuple(gains))
    for arm in out:
        state = drop(state, arm, Standing.HOPELESS)
    length = dict.fromkeys(gains, 0)
    for count in plan.looks:
        length.update(dict.fromkeys(state.living, count))
        tracks = {a: single(full[a][:count]) for a in state.living}
        state = look(state, tracks, plan, plan.alpha_per_look)
        if state.decided:
            break
    tracks = {a: single(full[a][: length[a]]) for a in gains}
    if plan.stage is CONFIRM.stage:
        tracks[NULL] = single([null + random.gauss(0, sd) for _ in noise])
    return Raced(
        plan=plan, candidates=tuple(gains), rounds=rounds, tracks=tracks, standings=state.standings,
        out={a: Out(status=Status.REJECTED, code=Code.NOT_CONFIRMED, reason="wrong") for a in out},
        alpha=plan.alpha_per_look, wall_ns=10**9, round_ns=10**8, stopped="enough",
    )  # fmt: skip


def play(races, truth, *, limit=4, sd=0.01, diff_sizes=None, **options):
    """Confirm as the engine does, and rank."""
    confirmations = []
    while ids := contenders(races, confirmations, PLAN, limit=limit):
        assert len(ids) <= limit
        confirmations.append(held({i: truth[i] for i in ids}, CONFIRM, sd=sd, seed=99, **options))
    return rank(races, confirmations, PLAN, diff_sizes or {}), confirmations


def test_a_clear_winner_wins_and_the_others_hear_why():
    truth = {"fast": 1.5, "medium": 1.2, "same": 1.0, "slow": 0.7}

    ranking, confirmations = play([held(truth)], truth)

    assert (ranking.verdict, ranking.winner, ranking.tie_set) == (Verdict.WINNER, "fast", ())
    codes = {r.id: (r.status, r.code) for r in ranking.candidates}
    assert codes == {
        "fast": (Status.WON, Code.OK),
        "medium": (Status.LOST, Code.BEATEN),
        "same": (Status.LOST, Code.NOT_FASTER),
        "slow": (Status.LOST, Code.NOT_FASTER),
    }
    assert [c.candidates for c in confirmations] == [("fast",)]
    won, medium = ranking.of("fast"), ranking.of("medium")
    assert won.speedup.stage == "confirmation"
    assert 1.4 < won.speedup.low <= won.speedup.estimate <= won.speedup.high < 1.6
    assert medium.speedup.stage == "race"
    assert "fast is 1.5" in ranking.summary
    assert ranking.of("nobody") is None


def test_the_smallest_diff_of_a_tie_is_taken():
    truth = {"big": 1.5, "small": 1.5, "less": 1.1}

    ranking, _ = play([held(truth)], truth, diff_sizes={"big": 900, "small": 10, "less": 1})

    assert (ranking.verdict, ranking.winner, ranking.tie_set) == (Verdict.TIE, "small", ("small", "big"))
    assert [ranking.of(a).status for a in truth] == [Status.TIED, Status.TIED, Status.LOST]


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
    assert all(r.status is Status.UNDECIDED and "would have needed about" in r.reason for r in noisy)


def test_a_leader_that_is_not_confirmed_makes_room_for_the_next():
    seen, truth = {"fluke": 1.6, "solid": 1.3}, {"fluke": 1.0, "solid": 1.3}

    ranking, confirmations = play([held(seen)], truth)

    assert [c.candidates for c in confirmations] == [("fluke",), ("solid",)]
    assert (ranking.verdict, ranking.winner) == (Verdict.WINNER, "solid")
    assert ranking.of("fluke").code is Code.NOT_FASTER
    assert ranking.of("fluke").speedup.stage == "confirmation"


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
    assert (ranking.of("bad").status, ranking.of("bad").reason) == (Status.REJECTED, "wrong")


def test_a_race_that_failed_blames_no_candidate():
    ranking = rank([RaceFailed(candidates=("a",), reason="The baseline died.")], [], PLAN, {})

    assert ranking.of("a").status is Status.INFRA
    assert ranking.verdict is Verdict.TOO_NOISY


def test_a_confirmation_that_failed_is_held_again():
    races, failed = [held({"a": 1.5})], RaceFailed(candidates=("a",), reason="The baseline died.")

    assert contenders(races, [failed], PLAN, limit=2) == ("a",)
    ranking = rank(races, [failed, held({"a": 1.5}, CONFIRM)], PLAN, {})

    assert ranking.winner == "a"


def test_a_baseline_unlike_itself_voids_the_run():
    ranking, _ = play([held({"a": 1.1})], {"a": 1.1}, null=0.1)

    assert (ranking.verdict, ranking.winner) == (Verdict.SUSPECT, "")
    assert ranking.of("a").status is Status.UNDECIDED


def cached_rounds(hot, cold):
    """Rounds in which arm "a" is `hot` times faster in timed passes and `cold` times in the first pass."""

    def block(arm, kind, ns, calls):
        return Block(arm=arm, kind=kind, cpu_ns=int(ns), wall_ns=int(ns), calls=calls)

    blocks = (
        block(BASELINE, BlockKind.COLD, 4.1e6, 10),
        block(BASELINE, BlockKind.AGAIN, 4e6, 10),
        block("a", BlockKind.COLD, 4.1e6 / cold, 10),
        block("a", BlockKind.AGAIN, 4e6 / hot, 10),
        block(BASELINE, BlockKind.TIMED, 8e6, 20),
        block("a", BlockKind.TIMED, 8e6 / hot, 20),
    )
    return tuple(Round(number=n, layout=n, core=0, blocks=blocks) for n in range(12))


def test_a_cache_is_doubted_and_an_honest_gain_is_not():
    races = [held({"a": 3.0})]

    cached, _ = play(races, {"a": 3.0}, rounds=cached_rounds(3, 1))
    honest, _ = play(races, {"a": 3.0}, rounds=cached_rounds(3, 2.5))

    assert (cached.verdict, cached.of("a").status) == (Verdict.SUSPECT, Status.UNDECIDED)
    assert "cache" in cached.summary
    assert (honest.verdict, honest.winner) == (Verdict.WINNER, "a")


def test_a_gain_beyond_belief_must_show_in_the_cold_pass():
    races = [held({"a": 80.0})]

    absurd, _ = play(races, {"a": 80.0}, rounds=cached_rounds(80, 3))
    honest, _ = play(races, {"a": 80.0}, rounds=cached_rounds(80, 60))

    assert absurd.verdict is Verdict.SUSPECT
    assert honest.winner == "a"


def test_a_doubted_leader_leaves_the_win_to_an_honest_second():
    truth = {"a": 3.0, "b": 2.9}
    confirmation = held(truth, CONFIRM, rounds=cached_rounds(3, 1))

    ranking = rank([held(truth)], [confirmation], PLAN, {})

    assert (ranking.verdict, ranking.winner) == (Verdict.WINNER, "b")
    assert ranking.of("a").reason.startswith("suspect")


def test_a_slower_group_is_named():
    plan = replace(PLAN, groups=(Group(name="t1", ns=9), Group(name="t2", ns=1)))
    track = Track(total=(0.4,) * 24, groups=((0.5,) * 24, (-0.1,) * 24), clock=Clock.CPU)
    raced = replace(held({"a": 1.5}), plan=plan, tracks={"a": track}, standings={"a": Standing.REGRESSES})

    ranking = rank([raced], [], plan, {})

    assert (ranking.of("a").code, ranking.verdict) == (Code.REGRESSES_TEST, Verdict.NOTHING_FASTER)
    assert "t2" in ranking.of("a").reason
    assert [name for name, _ in ranking.of("a").groups] == ["t1", "t2"]


def test_a_group_that_only_seems_slower_withholds_the_win():
    plan = replace(PLAN, groups=(Group(name="t1", ns=9), Group(name="t2", ns=1)))
    track = Track(total=(0.4,) * 24, groups=((0.5,) * 24, (-0.1, -0.1, 0.1) * 8), clock=Clock.CPU)
    raced = replace(held({"a": 1.5}), plan=plan, tracks={"a": track}, standings={"a": Standing.OPEN})

    ranking = rank([raced], [raced], plan, {})

    assert (ranking.of("a").status, ranking.winner) == (Status.UNDECIDED, "")
    assert "t2" in ranking.of("a").reason


gains = st.dictionaries(
    st.sampled_from("abcdef"), st.sampled_from([0.5, 0.97, 1.0, 1.03, 1.3, 2.0, 60.0]), min_size=1
)


@given(gains, st.sampled_from([0.001, 0.03, 0.4]), st.integers(0, 99), st.integers(1, 4))
def test_every_ranking_is_coherent(truth, sd, seed, limit):
    ranking, _ = play([held(truth, sd=sd, seed=seed)], truth, sd=sd, limit=limit)

    assert [r.id for r in ranking.candidates] == list(truth)
    assert bool(ranking.winner) == (ranking.verdict in {Verdict.WINNER, Verdict.TIE})
    assert (len(ranking.tie_set) > 1) == (ranking.verdict is Verdict.TIE)
    statuses = [r.status for r in ranking.candidates]
    assert statuses.count(Status.WON) == (ranking.verdict is Verdict.WINNER)
    assert statuses.count(Status.TIED) == len(ranking.tie_set)
    for ranked in ranking.candidates:
        assert ranked.reason
        assert ranked.status is not Status.LOST or ranked.code in {
            Code.NOT_FASTER,
            Code.BEATEN,
            Code.REGRESSES_TEST,
        }
        assert ranked.code is not Code.BEATEN or ranking.winner
