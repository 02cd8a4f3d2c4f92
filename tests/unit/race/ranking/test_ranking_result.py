from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.race.ranking.ranking_result import POLICIES, TiedCandidate, ordered
from codeflash_parallel.result.errors import UsageError


def tied(name, speedup=1.2, lines=10, *, is_level=True):
    return TiedCandidate(
        id=name,
        speedup=speedup,
        low=speedup - 0.1,
        high=speedup + 0.1,
        changed_lines=lines,
        is_level=is_level,
    )


many = st.lists(
    st.builds(
        tied,
        st.sampled_from("abcdefgh"),
        st.floats(1, 3),
        st.integers(0, 50),
        is_level=st.booleans(),
    ),
    unique_by=lambda one: one.id,
    min_size=1,
)


@given(many, st.sampled_from([*POLICIES]))
def test_every_policy_orders_all_whatever_their_order(facts, name):
    policy = POLICIES[name]

    assert sorted(ordered(policy, facts)) == sorted(one.id for one in facts)
    assert ordered(policy, facts) == ordered(policy, facts[::-1])


def test_the_fastest_is_the_smallest_change_that_is_surely_level():
    facts = [tied("fast", 1.30, 40), tied("level", 1.29, 5), tied("small", 1.25, 1, is_level=False)]

    assert ordered(POLICIES["fastest"], facts) == ("level", "fast", "small")
    assert ordered(POLICIES["smallest-diff"], facts) == ("small", "level", "fast")


def test_a_callable_of_the_user_decides():
    facts = [tied("a", 1.3), tied("b", 1.2)]

    assert ordered(lambda tied: sorted((t.id for t in tied), reverse=True), facts) == ("b", "a")


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (lambda tied: tied.missing, "AttributeError"),
        (lambda _tied: ["a"], "must return the ids"),
        (lambda _tied: ["a", "b", "c"], "must return the ids"),
        (lambda _tied: None, "must return the ids"),
        (lambda _tied: [{}, {}], "must return the ids"),
        (lambda tied: tied, "must return the ids"),
        (lambda tied: 1 / 0 if tied else [], "ZeroDivisionError"),
    ],
)
def test_a_wrong_callable_is_one_clear_line(policy, words):
    with pytest.raises(UsageError, match=words) as caught:
        ordered(policy, [tied("a"), tied("b")])

    assert "\n" not in str(caught.value)
