from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.config.settings import Settings
from codeflash_parallel.repair.budget import (
    ProviderSpending,
    RefinementContender,
    RequestPermission,
    choose_refinements,
    may_repair,
    refinement_depth,
    refinement_kind,
)
from codeflash_parallel.repair.provider_protocol import RefinementKind
from codeflash_parallel.result.candidate_model import CandidateId, CandidateOrigin

A, B = CandidateId("a"), CandidateId("b")


def contender(name, depth=0, speedup=2.0, parent_speedup=0.0):
    return RefinementContender(
        id=CandidateId(name), depth=depth, speedup=speedup, parent_speedup=parent_speedup
    )


@pytest.mark.parametrize(
    ("changes", "spent", "evidence", "expected"),
    [
        ({}, ProviderSpending(), 1, RequestPermission.GRANTED),
        ({}, ProviderSpending(), 0, RequestPermission.NO_EVIDENCE),
        ({}, ProviderSpending(repairs={A: 1}), 1, RequestPermission.LINEAGE_SPENT),
        ({}, ProviderSpending(repairs={B: 1}), 1, RequestPermission.GRANTED),
        ({"repairs_per_candidate": 0}, ProviderSpending(), 1, RequestPermission.LINEAGE_SPENT),
        ({"repairs_per_run": 2}, ProviderSpending(repairs={B: 2}), 1, RequestPermission.RUN_SPENT),
        ({"enough_correct": 2}, ProviderSpending(correct=1), 1, RequestPermission.GRANTED),
        ({"enough_correct": 2}, ProviderSpending(correct=2), 1, RequestPermission.ENOUGH_CORRECT),
        ({}, ProviderSpending(correct=99), 1, RequestPermission.GRANTED),
        ({"max_candidates": 3}, ProviderSpending(candidates=3), 1, RequestPermission.NO_CANDIDATES_LEFT),
        ({"max_candidates": 3}, ProviderSpending(candidates=2), 1, RequestPermission.GRANTED),
        ({}, ProviderSpending(seconds_left=0.0), 1, RequestPermission.NO_TIME_LEFT),
    ],
)
def test_who_may_be_repaired(changes, spent, evidence, expected):
    assert may_repair(Settings(**changes), spent, A, evidence) is expected


@given(st.lists(st.sampled_from(["a", "b", "c", "d"])), st.integers(0, 3), st.integers(0, 6))
def test_granted_repairs_never_exceed_their_limits(roots, per_candidate, per_run):
    bounds = Settings(repairs_per_candidate=per_candidate, repairs_per_run=per_run)
    spent = ProviderSpending()
    for root in map(CandidateId, roots):
        if may_repair(bounds, spent, root, 1) is RequestPermission.GRANTED:
            spent = spent.with_repair(root)
    assert sum(spent.repairs.values()) <= per_run
    assert all(n <= per_candidate for n in spent.repairs.values())
    wanted = sum(min(per_candidate, roots.count(r)) for r in set(roots))
    assert sum(spent.repairs.values()) == min(per_run, wanted)


def test_the_top_k_are_refined_once():
    ranked = [contender("a"), contender("b"), contender("c")]
    assert choose_refinements(Settings(refine_top=2), ProviderSpending(), ranked) == ("a", "b")
    assert choose_refinements(Settings(refine_top=2), ProviderSpending().with_refinements([A]), ranked) == (
        "b",
    )
    assert choose_refinements(Settings(refine_top=0), ProviderSpending(), ranked) == ()


def test_depth_is_limited_and_a_lineage_that_gains_nothing_ends():
    ranked = [contender("deep", depth=2), contender("gains", 1, 3.0, 2.0), contender("stalls", 1, 1.9, 2.0)]
    assert choose_refinements(Settings(refine_top=3), ProviderSpending(), ranked) == ("gains",)
    assert choose_refinements(Settings(refine_depth=0), ProviderSpending(), [contender("a")]) == ()


def test_nothing_is_refined_without_time_or_candidates():
    assert choose_refinements(Settings(), ProviderSpending(seconds_left=0.0), [contender("a")]) == ()
    assert (
        choose_refinements(Settings(max_candidates=1), ProviderSpending(candidates=1), [contender("a")]) == ()
    )


def test_a_descendant_of_a_refinement_is_refined_adaptively():
    assert refinement_depth([CandidateOrigin.PATCH, CandidateOrigin.REPAIR]) == 0
    assert refinement_depth([CandidateOrigin.PATCH, CandidateOrigin.REFINEMENT, CandidateOrigin.REPAIR]) == 1
    assert refinement_kind(0) is RefinementKind.FIRST
    assert refinement_kind(1) is RefinementKind.ADAPTIVE
