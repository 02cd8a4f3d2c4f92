from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.race.cost_groups import PASS_NS, CallCost, cost_groups, whole_test_groups
from codeflash_parallel.race.plan import BASELINE, CostGroup, block_order, weights

calls = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c", "d", "e", "f"]), st.integers(0, 10**9)),
    min_size=1,
    max_size=300,
).map(lambda items: [(index, test, ns) for index, (test, ns) in enumerate(items)])


@given(calls)
def test_groups_cover_every_test_once_and_are_few(items):
    groups = cost_groups(items)

    assert 1 <= len(groups) <= 4
    assert sorted(t for g in groups for t in g.tests) == sorted({test for _, test, _ in items})
    assert sum(g.ns for g in groups) == sum(max(ns, 1) for _, _, ns in items)


repeated = st.lists(
    st.tuples(st.sampled_from("abcdef"), st.integers(0, 10**9), st.sampled_from(["", "x", "y", "z"])),
    min_size=1,
    max_size=300,
).map(lambda items: [(index, *call) for index, call in enumerate(items)])


@given(repeated)
def test_of_calls_with_equal_inputs_one_is_timed_and_weighs_as_much_as_all(items):
    groups = cost_groups(items, cycle_ns=10**15, max_calls=1000, pass_ns=10**15)

    timed = [index for group in groups for index in group.calls]
    unlike = {inputs or index for index, _, _, inputs in items}
    assert len(timed) == len(unlike)
    assert {items[index][3] or index for index in timed} == unlike
    assert sorted(t for g in groups for t in g.tests) == sorted({test for _, test, _, _ in items})
    assert sum(g.ns for g in groups) == sum(max(ns, 1) for _, _, ns, _ in items)


def test_a_test_without_calls_of_its_own_is_stood_for_where_its_calls_are_timed():
    items = [(0, "big", 700, "x"), (1, "same", 700, "x"), (2, "mid", 600, "y"), (3, "same", 600, "y")]

    groups = cost_groups(items)

    assert [(g.tests, g.calls, g.ns) for g in groups] == [
        (("big", "same"), (0,), 1400),
        (("mid",), (2,), 1200),
    ]


@given(calls, st.integers(1, 10**9))
def test_sampled_calls_belong_to_their_group_and_hold_its_dearest(items, cycle_ns):
    by_index = {index: (test, ns) for index, test, ns in items}
    for group in cost_groups(items, cycle_ns=cycle_ns):
        assert group.calls
        assert len(set(group.calls)) == len(group.calls) <= 200
        assert {by_index[i][0] for i in group.calls} <= set(group.tests)
        dearest = max(ns for test, ns in by_index.values() if test in group.tests)
        assert max(by_index[i][1] for i in group.calls) == dearest


def test_a_cycle_is_kept_near_its_length():
    (group,) = cost_groups([(i, "t", 1_000_000) for i in range(1000)], cycle_ns=8_000_000)

    assert len(group.calls) == 8
    assert group.ns == 1_000_000_000


@given(calls, st.integers(0, 10**10), st.integers(1, 50))
def test_a_pass_over_calls_whose_inputs_are_dear_to_copy_is_cut_to_a_sample(items, copy_ns, large):
    costs = [CallCost(*item, copy_ns=copy_ns * (item[0] % large == 0)) for item in items]

    groups = cost_groups(costs)

    by_index = {cost.call: cost for cost in costs}
    for group in groups:
        assert 0 <= group.pass_ns - sum(by_index[call].pass_ns for call in group.calls) <= len(group.calls)
        assert group.pass_ns <= PASS_NS / len(groups) or len(group.calls) == 1
        assert {by_index[call].test for call in group.calls} <= set(group.tests)
    plain = cost_groups(items)
    assert [(g.tests, g.ns) for g in groups] == [(g.tests, g.ns) for g in plain]
    if not copy_ns:
        assert [g.calls for g in groups] == [g.calls for g in plain]


def test_calls_that_are_dearer_to_copy_than_to_make_are_left_out_where_the_others_stand_for_most():
    cheap = [CallCost(i, f"t{i}", 1000, copy_ns=2000) for i in range(10)]
    dear = CallCost(10, "large", 900, copy_ns=10_000)

    (group,) = cost_groups([*cheap, dear])
    assert (group.calls, group.ns) == (tuple(range(10)), 10_900)

    (alone,) = cost_groups([cheap[0], dear._replace(ns=1100, test="t0")])
    assert alone.calls == (0, 10)


def test_heavy_tests_stand_alone_and_light_ones_are_pooled():
    items = [(0, "big", 700), (1, "mid", 200), (2, "s1", 50), (3, "s2", 50)]

    assert [g.tests for g in cost_groups(items)] == [("big",), ("mid",), ("s1", "s2")]


def test_fifty_equal_tests_are_one_group():
    groups = cost_groups([(i, f"t{i}", 100) for i in range(50)])

    assert [(g.name, len(g.calls)) for g in groups] == [("50 tests", 50)]


def test_whole_tests_are_pooled_alike():
    groups = whole_test_groups([("big", 900), ("x", 50), ("y", 50)])

    assert [(g.tests, g.ns, g.calls) for g in groups] == [(("big",), 900, ()), (("x", "y"), 100, ())]


@given(st.lists(st.integers(1, 10**12), min_size=1, max_size=4))
def test_weights_sum_to_one_and_are_capped(costs):
    groups = [CostGroup(name=str(i), ns=ns) for i, ns in enumerate(costs)]

    result = weights(groups)

    assert abs(sum(result) - 1) < 1e-9
    assert len(groups) < 3 or max(result) <= 0.5 + 1e-9


@given(st.integers(1, 12), st.integers())
def test_the_order_is_a_palindrome_with_everybody_twice(count, seed):
    arms = [f"c{i}" for i in range(count)]

    order = block_order(arms, Random(seed))

    assert order == order[::-1]
    assert all(order.count(arm) == 2 for arm in arms)
    assert order.count(BASELINE) == 2 * ((count + 1) // 2)
    for position, arm in enumerate(order):
        assert arm == BASELINE or BASELINE in order[max(0, position - 2) : position + 3]


def test_either_end_may_be_the_baseline():
    seen = {block_order(["c"], Random(seed)) for seed in range(20)}

    assert seen == {(BASELINE, "c", "c", BASELINE), ("c", BASELINE, BASELINE, "c")}
