from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.process.message_frames import marker_of, tag_of

numbers = st.integers(1, 99_999_999)
generations = st.integers(0, 5)
tops = st.integers(65_537, 2**31)


@given(numbers, numbers)
def test_markers_have_one_length_and_differ(one, other):
    first, second = marker_of("prefix-", one), marker_of("prefix-", other)
    assert len(first) == len(second)
    assert (first == second) == (one == other)


@given(tops, numbers, numbers, generations)
def test_a_fork_s_tag_is_below_its_template_s(top, parent, child, generation):
    assert top > tag_of(top, parent, generation) > tag_of(top, child, generation + 1) > 0


@given(tops, numbers, st.integers(1, 4095), generations)
def test_jobs_that_may_run_together_have_different_tags(top, number, distance, generation):
    assert tag_of(top, number, generation) != tag_of(top, number + distance, generation)


@given(numbers, generations)
def test_without_room_there_is_no_tag(number, generation):
    assert tag_of(0, number, generation) == 0
