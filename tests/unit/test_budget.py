from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.model.candidate import CandidateId, Origin
from codeflash_parallel.model.providers import RefinementKind
from codeflash_parallel.model.settings import Settings
from codeflash_parallel.repair.budget import (
    Contender,
    Permission,
    Spent,
    choose_refinements,
    may_repair,
    refinement_depth,
    refinement_kind,
)

A, B = CandidateId("a"), CandidateId("b")


def contender(name, depth=0, speedup=2.0, parent_speedup=0.0):
    return Contender(id=CandidateId(name), depth=depth, speedup=speedup, parent_speedup=parent_speedup)


@pytest.mark.parametrize(
    ("changes", "spent", "evidence", "expected"),
    [
        ({}, Spent(), 1, Permission.GRANTED),
        ({}, Spent(), 0, Permission.NO_EVIDENCE),
        ({}, Spent(repairs={A: 1}), 1, Permission.LINEAGE_SPENT),
        ({}, Spent(repairs={B: 1}), 1, Permission.GRANTED),
        ({"repairs_per_candidate": 0}, Spent(), 1, Permission.LINEAGE_SPENT),
        ({"repairs_per_run": 2}, Spent(repairs={B: 2}), 1, Permission.RUN_SPENT),
        ({"enough_correct": 2}, Spent(correct=1), 1, Permission.GRANTED),
        ({"enough_correct": 2}, Spent(correct=2), 1, Permission.ENOUGH_CORRECT),
        ({}, Spent(correct=99), 1, Permission.GRANTED),
        ({"max_candidates": 3}, Spent(candidates=3), 1, Permission.NO_CANDIDATES_LEFT),
        ({"max_candidates": 3}, Spent(candidates=2), 1, Permission.GRANTED),
        ({}, Spent(seconds_left=0.0), 1, Permission.NO_TIME_LEFT),
    ],
)
def test_who_may_be_repaired(changes, spent, evidence, expected):
    assert may_repair(Settings(**changes), spent, A, evidence) is expected


@given(st.lists(st.sampled_from(["a", "b", "c", "d"])), st.integers(0, 3), st.integers(0, 6))
def test_granted_repairs_never_exceed_their_limits(roots, per_candidate, per_run):
    bounds = Settings(repairs_per_candidate=per_candidate, repairs_per_run=per_run)
    spent = Spent()
    for root in map(CandidateId, roots):
        if may_repair(bounds, spent, root, 1) is Permission.GRANTED:
            spent = spent.with_repair(root)
    assert sum(spent.repairs.values()) <= per_run
    assert all(n <= per_candidate for n in spent.repairs.values())
    wanted = sum(min(per_candidate, roots.count(r)) for r in set(roots))
    assert sum(spent.repairs.values()) == min(per_run, wanted)


def test_the_top_k_are_refined_once():
    ranked = [contender("a"), contender("b"), contender("c")]
    assert choose_refinements(Settings(refine_top=2), Spent(), ranked) == ("a", "b")
    assert choose_refinements(Settings(refine_top=2), Spent().with_refinements([A]), ranked) == ("b",)
    assert choose_refinements(Settings(refine_top=0), Spent(), ranked) == ()


def test_depth_is_limited_and_a_lineage_that_gains_nothing_ends():
    ranked = [contender("deep", depth=2), contender("gains", 1, 3.0, 2.0), contender("stalls", 1, 1.9, 2.0)]
    assert choose_refinements(Settings(refine_top=3), Spent(), ranked) == ("gains",)
    assert choose_refinements(Settings(refine_depth=0), Spent(), [contender("a")]) == ()


def test_nothing_is_refined_without_time_or_candidates():
    assert choose_refinements(Settings(), Spent(seconds_left=0.0), [contender("a")]) == ()
    assert choose_refinements(Settings(max_candidates=1), Spent(candidates=1), [contender("a")]) == ()


def test_a_descendant_of_a_refinement_is_refined_adaptively():
    assert refinement_depth([Origin.PATCH, Origin.REPAIR]) == 0
    assert refinement_depth([Origin.PATCH, Origin.REFINEMENT, Origin.REPAIR]) == 1
    assert refinement_kind(0) is RefinementKind.FIRST
    assert refinement_kind(1) is RefinementKind.ADAPTIVE
