"""Whom to confirm next: caches hide nobody, chance condemns nobody, and all of it ends."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from test_rank import PLAN, cached_rounds, held

from codeflash_parallel.benchmark.attempts import SHARES, confirmation_of, contenders
from codeflash_parallel.benchmark.rank import rank
from codeflash_parallel.model.outcome import Code, Verdict


def doubted(arm, gain, plan):
    """A confirmation of an arm that is fast on inputs that it has seen only."""
    rounds = tuple(
        replace(r, blocks=tuple(replace(b, arm=arm) if b.arm == "a" else b for b in r.blocks))
        for r in cached_rounds(gain, 1)
    )
    return held({arm: gain}, plan, rounds=rounds)


def test_three_caches_do_not_hide_who_is_faster():
    caches, confirmations = {"m40": 40.0, "m20": 20.0, "m10": 10.0}, []
    races = [held({**caches, "honest": 1.5})]

    while ids := contenders(races, confirmations, PLAN, limit=2):
        again = confirmation_of(races, confirmations, PLAN, ids)
        (arm,) = ids
        gain = caches.get(arm)
        confirmations.append(doubted(arm, gain, again) if gain else held({arm: 1.5}, again))
    ranking = rank(races, confirmations, PLAN, {})

    assert [c.candidates for c in confirmations] == [("m40",), ("m40",), ("m20",), ("m10",), ("honest",)]
    assert (ranking.verdict, ranking.winner) == (Verdict.WINNER, "honest")
    assert ranking.of("m40").code is Code.SUSPECT


def test_attempts_share_one_error_budget_and_end():
    caches, confirmations = {f"m{n}": 30.0 - 3 * n for n in range(9)}, []
    races = [held(caches)]

    while ids := contenders(races, confirmations, PLAN, limit=2):
        again = confirmation_of(races, confirmations, PLAN, ids)
        confirmations.append(doubted(ids[0], caches[ids[0]], again))

    assert len(confirmations) == len(SHARES)
    assert sum(c.plan.share for c in confirmations) <= 1 + 1e-9


def test_who_is_taken_for_a_cache_by_chance_is_looked_at_again():
    races, confirmations = [held({"a": 3.0})], []

    for make in (partial(doubted, "a", 3.0), partial(held, {"a": 3.0})):
        ids = contenders(races, confirmations, PLAN, limit=2)
        assert ids == ("a",)
        confirmations.append(make(plan=confirmation_of(races, confirmations, PLAN, ids)))

    assert contenders(races, confirmations, PLAN, limit=2) == ()
    ranking = rank(races, confirmations, PLAN, {})
    assert (ranking.verdict, ranking.winner) == (Verdict.WINNER, "a")
