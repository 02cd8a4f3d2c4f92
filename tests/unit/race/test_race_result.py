from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.race.race_result import (
    POLICIES,
    ArmFailure,
    ArmMemoryLimitExceeded,
    ArmOutOfMemory,
    ArmStartFailure,
    TiedCandidate,
    explained,
    ordered,
    out_of,
)
from codeflash_parallel.result.errors import UsageError
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, ExitKind
from codeflash_parallel.result.runtime_protocols import ProcessExit


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


@pytest.mark.parametrize(
    ("ended", "kind", "words"),
    [
        (ExitKind.OOM_KILLED, ArmOutOfMemory, "no memory left"),
        (ExitKind.NOT_STARTED, ArmStartFailure, "could not be started"),
        (ExitKind.MEMORY_LIMIT, ArmMemoryLimitExceeded, "memory limit: 300 MiB"),
        (ExitKind.EXITED, ArmFailure, "ended before its time: last words"),
    ],
)
def test_why_an_arm_was_lost(ended, kind, words):
    lost = explained(
        ArmFailure("ended before its time"), ProcessExit(ended=ended, message="300 MiB", stderr="last words")
    )
    assert type(lost) is kind
    assert words in lost.reason


@pytest.mark.parametrize(
    ("ended", "status", "code"),
    [
        (ExitKind.OOM_KILLED, CandidateStatus.INFRA, Code.INFRA_MEMORY),
        (ExitKind.NOT_STARTED, CandidateStatus.INFRA, Code.INFRA_SLOT),
        (ExitKind.MEMORY_LIMIT, CandidateStatus.REJECTED, Code.OUT_OF_MEMORY),
        (ExitKind.EXITED, CandidateStatus.UNDECIDED, Code.NOT_CONFIRMED),
    ],
)
def test_a_lost_arm_has_the_code_that_its_end_has_in_a_check(ended, status, code):
    out = out_of(explained(ArmFailure("ended before its time"), ProcessExit(ended=ended)))
    assert (out.status, out.code) == (status, code)
