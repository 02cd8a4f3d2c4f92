"""The model of `benchmarks/cluster_model.py`: nothing is judged twice or forgotten, and every cost has its name."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from math import inf
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))

import cluster_model
from cluster_model import CAUSES, ClusterModel, Outcome, Scenario

from codeflash_parallel.hosts.cluster import host_cluster, host_run
from codeflash_parallel.run.check_phase import check_coordinator

#: Nothing but checks costs anything, and all checks take as long.
FREE = Scenario(
    candidates=1000,
    hosts=10,
    known_s=0,
    prepare_s=0,
    message_s=0,
    submit_s=0,
    cut_s=0,
    dispatch_s=0,
    ledger_s=0,
    follow_s=0,
    linger_s=0,
    bundle_mb=0,
    latency_s=0,
    baseline_s=0,
    start_s=0,
    again_s=0,
    first_s=0,
    overhead_s=0,
    fresh_s=0,
    warm_s=0,
    check_sigma=0,
    straggler_share=0,
    loss_per_h=0,
)
SMALL = Scenario(candidates=400, hosts=8, slots=2)


def made(scenario: Scenario, seed: int = 1) -> Outcome:
    return ClusterModel(scenario, seed).run()


def test_rules_are_those_of_the_dispatcher() -> None:
    assert (cluster_model.AHEAD, cluster_model.ALONE) == (host_cluster._AHEAD, host_cluster._ALONE)
    assert Scenario().linger_s == host_cluster._LINGER_S
    assert cluster_model.COUNT_S == host_cluster._COUNT_S
    assert Scenario().idle_s == host_run._IDLE_S
    assert check_coordinator.AHEAD == cluster_model.LEAST_AHEAD
    assert Scenario().told == check_coordinator._TOLD


@pytest.mark.parametrize(
    "scenario",
    [
        SMALL,
        replace(SMALL, candidates=1),
        replace(SMALL, candidates=7, hosts=40),
        replace(SMALL, passing_share=1.0),
        replace(SMALL, prepare_s=2.0),
        replace(SMALL, message_s=1.0),
        replace(SMALL, loss_per_h=0.9),
    ],
)
def test_every_candidate_is_judged_once_and_all_time_has_a_cause(scenario: Scenario) -> None:
    model = ClusterModel(scenario, 1)
    outcome = model.run()
    assert [one.judged for one in model.candidates] == [1] * scenario.candidates
    assert (outcome.judged, outcome.given_up) == (scenario.candidates, 0)
    assert sum(outcome.shares.values()) == pytest.approx(1)
    assert all(share >= -1e-9 for share in outcome.shares.values())
    assert outcome.shares["check"] == pytest.approx(outcome.efficiency)


def test_a_seed_gives_the_same_run() -> None:
    one, again, other = made(SMALL), made(SMALL), made(SMALL, seed=2)
    assert one == again
    assert one.makespan_s != other.makespan_s


@pytest.mark.parametrize("places", [(10, 1), (5, 2), (1, 1), (100, 1), (250, 4)])
def test_nothing_is_lost_where_nothing_costs_anything(places: tuple[int, int]) -> None:
    hosts, slots = places
    outcome = made(replace(FREE, hosts=hosts, slots=slots))
    assert outcome.efficiency == pytest.approx(1)
    assert outcome.makespan_s == pytest.approx(1000 * FREE.check_s / (hosts * slots))


@pytest.mark.parametrize("idle_s", [20, 0])
def test_a_process_that_stays_has_its_costs_once(idle_s: float) -> None:
    costs = replace(FREE, first_s=8, warm_s=2, overhead_sigma=0, linger_s=1, idle_s=idle_s)
    outcome = made(costs)
    firsts = outcome.shares["first"] * outcome.makespan_s * costs.places
    assert firsts == pytest.approx(10 * (costs.places if idle_s else outcome.shards))


def test_constants_of_later_candidates_cost_each_host_one_more_making() -> None:
    costs = replace(FREE, hosts=10, slots=1, told=1, fresh_s=3, overhead_sigma=0)
    outcome = made(costs)
    makings = outcome.shares["fresh"] * outcome.makespan_s * costs.places / costs.fresh_s
    assert 0 < makings <= 2 * costs.hosts < outcome.shards


@pytest.mark.parametrize(("told", "waits_s"), [(1000, 10), (500, 5), (5000, 10)])
def test_no_shard_is_sent_before_the_first_candidates_are_known(told: int, waits_s: float) -> None:
    outcome = made(replace(FREE, told=told, known_s=0.01))
    idle_s = outcome.shares["preparation"] * outcome.makespan_s
    # Later ones are made known in their turn.
    assert waits_s <= idle_s + 1e-6 < waits_s + 1


def test_where_all_constants_are_told_the_baseline_has_all_fresh_inputs() -> None:
    assert made(replace(FREE, told=1000, fresh_s=2)).shares["fresh"] == 0


def test_candidates_that_do_not_divide_leave_places_idle() -> None:
    outcome = made(replace(FREE, candidates=1001))
    assert outcome.makespan_s == pytest.approx(101 * FREE.check_s)
    assert outcome.shares["stragglers"] == pytest.approx(9 / 1010)


@pytest.mark.parametrize(
    ("cause", "costs"),
    [
        ("bundle", {"bundle_mb": 500}),
        ("baseline", {"baseline_s": 30}),
        ("start", {"start_s": 20}),
        ("start", {"again_s": 5}),
        ("overhead", {"overhead_s": 5}),
        ("first", {"first_s": 10}),
        ("first", {"warm_s": 10}),
        ("preparation", {"known_s": 0.02}),
        ("preparation", {"prepare_s": 0.6}),
        ("submitter", {"message_s": 0.2}),
        ("submitter", {"submit_s": 5}),
        ("fresh", {"fresh_s": 10}),
        ("submitter", {"cut_s": 0.005}),
        ("submitter", {"dispatch_s": 5}),
        ("submitter", {"ledger_s": 0.005}),
        ("submitter", {"linger_s": 5}),
        ("submitter", {"latency_s": 5}),
        ("stragglers", {"candidates": 10, "straggler_share": 0.3, "straggler_factor": 20}),
        ("lost", {"loss_per_h": 0.9, "replace_s": inf}),
    ],
)
def test_a_cost_lowers_efficiency_under_its_own_name(cause: str, costs: dict[str, float]) -> None:
    free, outcome = made(FREE), made(replace(FREE, **costs))
    assert free.efficiency == pytest.approx(1)
    assert outcome.efficiency < 0.99
    assert outcome.cause == cause
    assert outcome.shares[cause] > 0.005


def test_jobs_that_are_followed_slow_the_submitting_process_down() -> None:
    followed = made(replace(FREE, message_s=0.02, follow_s=0.09))
    alone = made(replace(FREE, message_s=0.02))
    assert followed.submitter > alone.submitter
    assert followed.efficiency < alone.efficiency


def test_the_bundle_comes_once_to_each_host_over_a_link_that_all_share() -> None:
    costs = {"bundle_mb": 100.0, "pack_mb_s": 1e9, "in_mb_s": 50.0}
    narrow = made(replace(FREE, slots=2, out_mb_s=100.0, **costs))
    wide = made(replace(FREE, slots=2, out_mb_s=1e9, **costs))
    # Ten hosts at 10 MB/s each, or each at its own 50 MB/s; both places of a host wait for it.
    assert narrow.shares["bundle"] * narrow.makespan_s == pytest.approx(10)
    assert wide.shares["bundle"] * wide.makespan_s == pytest.approx(2)


def test_other_shards_of_a_host_wait_for_its_baseline() -> None:
    outcome = made(replace(FREE, slots=4, baseline_s=10))
    assert outcome.shares["baseline"] * outcome.makespan_s == pytest.approx(10)


def test_candidates_behind_a_long_check_leave_other_places_idle() -> None:
    model = ClusterModel(replace(FREE, candidates=100, check_s=1, linger_s=0.01), 1)
    model.candidates[0].check_s = 91
    outcome = model.run()
    # Ten places have ten candidates each; nine others wait behind the long one.
    assert outcome.makespan_s == pytest.approx(100.01)
    assert outcome.shares["uneven"] == pytest.approx(9 * 89 / 1000, rel=1e-3)
    assert outcome.shares["stragglers"] == pytest.approx(9 / 1000, rel=1e-3)


@pytest.mark.parametrize("seed", range(5))
def test_lost_hosts_lose_no_candidate(seed: int) -> None:
    scenario = replace(SMALL, loss_per_h=0.95, candidates=1000, notice_s=10, replace_s=20)
    model = ClusterModel(scenario, seed)
    outcome = model.run()
    assert outcome.lost_hosts
    assert outcome.shares["lost"] > 0
    assert [one.judged for one in model.candidates] == [1] * scenario.candidates


def test_a_candidate_that_is_lost_alone_too_often_is_given_up() -> None:
    """No check of an hour ends on hosts that live for seconds; the run ends all the same."""
    scenario = replace(FREE, candidates=3, hosts=3, check_s=3600, loss_per_h=1 - 1e-15, replace_s=1)
    scenario = replace(scenario, candidates=2, notice_s=1)
    model = ClusterModel(scenario, 1)
    outcome = model.run()
    assert outcome.judged + outcome.given_up == 2
    assert all(one.losses > host_cluster._ALONE for one in model.candidates if one.is_given_up)
    assert outcome.given_up


def test_hosts_that_do_not_come_back_end_the_run_without_a_verdict() -> None:
    outcome = made(replace(FREE, candidates=50, hosts=1, check_s=3600, loss_per_h=0.9, replace_s=inf))
    assert outcome.judged < 50


@pytest.mark.parametrize("missing", [{"hots": 3}, {"measured_s": 1.0}])
def test_a_field_that_does_not_exist_is_named(missing: dict[str, float]) -> None:
    with pytest.raises(SystemExit, match=next(iter(missing))):
        cluster_model.scenario_of(missing, Scenario())


def test_shards_that_are_small_for_want_of_candidates_are_laid_to_the_preparation(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster_model.main(["--runs", "1", "--hosts", "50", "--warm-s", "0", "--sweeps", "prepare"])
    printed = capsys.readouterr().out
    assert "Cause: preparation" in printed
    assert cluster_model.REMEDIES["preparation"] in printed


def test_finding_names_where_it_breaks_and_the_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--runs", "1", "--hosts", "20", "--candidates", "6000", "--start-s", "0", "--warm-s", "0"]
    cluster_model.main([*words, "--sweeps", "bundle"])
    printed = capsys.readouterr().out
    assert "Cause: bundle" in printed
    assert cluster_model.REMEDIES["bundle"] in printed
    assert len([line for line in printed.splitlines() if line.startswith("| ")]) == 2 + 7


def test_finding_names_both_sides_of_the_best_row() -> None:
    outcome = made(FREE)
    rows = []
    for name, efficiency, cause in (("60", 0.8, "stragglers"), ("30", 0.93, ""), ("1", 0.7, "first")):
        shares = {**dict.fromkeys(CAUSES, 0.0), **({cause: 1 - efficiency} if cause else {})}
        one = replace(outcome, efficiency=efficiency, shares=shares)
        rows.append(cluster_model.Row(name=name, scenario=FREE, middle=one, shares=shares))
    shorter, longer = cluster_model.finding(rows).splitlines()
    assert "until 30 (93.0%), under it from 1 on (70.0%). Cause: first" in shorter
    assert "until 30 (93.0%), under it from 60 on (80.0%). Cause: stragglers" in longer
    rough = replace(rows[2], middle=replace(rows[2].middle, submitter=0.95))
    assert "rough" in cluster_model.finding([*rows[:2], rough])
    assert cluster_model.finding(rows[2:]).startswith("Under 90% everywhere, at most 70.0% (1).")


def test_every_cause_has_a_column_and_a_remedy() -> None:
    assert set(made(SMALL).shares) == {"check", *CAUSES}
    assert all(cluster_model.REMEDIES.values())


def test_a_measured_run_is_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scenario = {"hosts": 3, "slots": 2, "candidates": 60, "checks_s": [1.0, 2.0], "baseline_s": 4.0}
    (tmp_path / "measured.json").write_text(json.dumps([{"measured_s": 20.0, **scenario}]))
    words = ["--check", str(tmp_path / "measured.json"), "--json", str(tmp_path / "out.json")]
    cluster_model.main([*words, "--loss-per-h", "0"])
    (found,) = json.loads((tmp_path / "out.json").read_text())["check"]
    assert found["model_s"] == pytest.approx(20 * found["ratio"])
    assert found["least_s"] <= found["model_s"] <= found["most_s"]
    assert found["model_s"] > 60 * 1.0 / 6 + 4.0
    assert f"{found['ratio']:.2f}" in capsys.readouterr().out
