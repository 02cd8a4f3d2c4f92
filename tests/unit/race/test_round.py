"""The order of a round, and the cores that the parent leaves to it."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.race.calibration import (
    BlockScale,
)
from codeflash_parallel.race.round import siblings, stand_aside, turns


def test_siblings_as_the_kernel_writes_them(tmp_path):
    for core, shown in ((0, "0,4\n"), (1, "0-2,5\n")):
        folder = tmp_path / f"cpu{core}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(shown)

    assert siblings(0, tmp_path) == {4}
    assert siblings(1, tmp_path) == {0, 2, 5}
    assert siblings(7, tmp_path) == frozenset()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one core only")
def test_standing_aside_leaves_the_siblings_of_a_core(tmp_path):
    allowed = os.sched_getaffinity(0)
    core, other, *_ = sorted(allowed)
    shown = tmp_path / f"cpu{core}" / "topology" / "thread_siblings_list"
    shown.parent.mkdir(parents=True)

    def while_aside(siblings_list, of=core):
        shown.write_text(siblings_list)
        with stand_aside(of, tmp_path):
            return os.sched_getaffinity(0)

    assert while_aside(f"{core},{other}") == allowed - {other}
    assert while_aside(f"{core}") == allowed
    assert while_aside(f"{core},{other}", of=-1) == allowed
    assert os.sched_getaffinity(0) == allowed


MS = 1_000_000


def scale(block_ns, cycle=10):
    return BlockScale(cycle=cycle, calls=cycle, block_ns=block_ns)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(0, 1000))
def test_groups_take_turns_palindrome_by_palindrome(counts, seed):
    scales = [replace(scale(MS), palindromes=count) for count in counts]
    order = [*turns(scales, Random(seed))]

    assert Counter(order) == Counter(dict(enumerate(counts)))
    # Nobody has a second turn before all others that have one left have had theirs.
    for at in range(1, len(order) + 1):
        had = Counter(order[:at])
        assert all(had[group] >= min(count, max(had.values()) - 1) for group, count in enumerate(counts))
