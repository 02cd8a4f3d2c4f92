"""The verdict again from its records: the same, another by other rules, and records that lead to none."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from simulated_races import CONFIRM, PLAN, held
from simulated_races import recorded as records_of

from codeflash_parallel.benchmark.decide import Standing
from codeflash_parallel.benchmark.policy import POLICIES
from codeflash_parallel.benchmark.raced import Out, RaceFailed
from codeflash_parallel.benchmark.record import from_json, to_json
from codeflash_parallel.engine.replay import Incomplete, held_against, replay
from codeflash_parallel.model.outcome import Code, Status, Verdict


def recorded(race, confirmations, out=None):
    """Return the records as they come from disk."""
    records = records_of(race, confirmations, out)
    return [from_json(json.loads(json.dumps(to_json(record)))) for record in records]


@pytest.fixture(scope="module")
def records():
    race = held({"fast": 1.5, "twin": 1.2, "same": 1.0}, PLAN)
    return recorded(race, [held({"fast": 1.5}, CONFIRM)])


def test_the_verdict_is_the_same(records):
    found = replay(records, POLICIES.get)

    assert found.differences == ()
    assert found.recomputed == found.recorded
    assert (found.recomputed.verdict, found.recomputed.winner) == (Verdict.WINNER, "fast")
    assert (found.races, found.confirmations, found.rounds) == (1, 1, 48)


def test_who_was_excluded_stays_out():
    out = {"fast": Out(status=Status.REJECTED, code=Code.TESTS_FAILED, reason="fails alone")}
    race = held({"fast": 1.5, "same": 1.0}, PLAN)

    found = replay(recorded(race, [held({"fast": 1.5}, CONFIRM)], out), POLICIES.get)

    assert found.differences == ()
    assert found.recomputed.of("fast").code is Code.TESTS_FAILED


def test_who_left_in_a_round_is_not_looked_at_any_longer():
    out = {"same": Out(status=Status.LOST, code=Code.NOT_FASTER, reason="slow", left_in=3)}

    found = replay(
        recorded(held({"fast": 1.5, "same": 1.0}, PLAN, out=out), [held({"fast": 1.5}, CONFIRM)]),
        POLICIES.get,
    )

    assert found.differences == ()


def test_a_race_that_failed_is_ranked_as_it_was():
    failed = RaceFailed(candidates=("fast",), reason="The baseline could not be timed: it died.")

    found = replay(recorded(failed, []), POLICIES.get)

    assert found.differences == ()
    assert found.rounds == 0


def test_a_changed_number_is_noticed(records):
    race = records[1].outcome
    looks = replace(race.looks, standings={**race.looks.standings, "same": Standing.FASTER})
    forged = replace(records[1], outcome=replace(race, looks=looks))

    found = replay([records[0], forged, *records[2:]], POLICIES.get)

    assert found.differences == ("race 1: standings",)


def test_a_changed_verdict_is_noticed(records):
    ranking = replace(records[-1].ranking, winner="same", summary="same is faster.")

    found = replay([*records[:-1], replace(records[-1], ranking=ranking)], POLICIES.get)

    assert found.differences == ("ranking: winner", "ranking: summary")


def test_a_document_that_names_somebody_else_is_noticed(records):
    found = replay(records, POLICIES.get)

    assert held_against(found, {"verdict": "winner", "winner": "fast", "tie_set": []}) == found
    assert held_against(found, {"verdict": None, "winner": None, "tie_set": []}) == found
    wrong = held_against(found, {"verdict": "tie", "winner": "same", "tie_set": ["same", "fast"]})
    assert wrong.differences == ("document: winner", "document: tie_set")


def test_other_rules_give_another_verdict(records):
    found = replay(records, POLICIES.get, lambda plan: replace(plan, min_speedup=0.9))

    assert found.recorded.winner == "fast"
    assert found.recomputed.verdict is not Verdict.WINNER


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        (slice(0, 0), "does not say which run"),
        (slice(1, None), "does not say which run"),
        (slice(0, 3), "ended before its race was decided"),
    ],
)
def test_records_without_a_verdict(records, chosen, said):
    with pytest.raises(Incomplete, match=said):
        replay(records[chosen], POLICIES.get)


def test_records_of_two_runs(records):
    with pytest.raises(Incomplete, match="two runs"):
        replay([*records, *records], POLICIES.get)
