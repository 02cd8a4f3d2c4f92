from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.process.machine import Machine, auto_slots

LAPTOP = Machine(cores=8, quota_cores=8.0, memory_bytes=16 << 30, load=0.0)


@pytest.mark.parametrize(
    ("change", "slots"),
    [
        ({}, 8),
        ({"cores": 64, "quota_cores": 64.0, "memory_bytes": 1 << 40}, 8),
        ({"quota_cores": 2.5}, 2),
        ({"quota_cores": 0.5}, 1),
        ({"memory_bytes": 3 << 30}, 3),
        ({"memory_bytes": 0}, 1),
        ({"cores": 1}, 1),
    ],
)
def test_slots_are_what_cores_and_memory_bear(change, slots):
    assert auto_slots(LAPTOP._replace(**change)) == slots


@given(st.integers(1, 512), st.floats(0.01, 512), st.integers(0, 1 << 44))
def test_there_is_always_a_slot(cores, quota, memory):
    assert 1 <= auto_slots(Machine(cores=cores, quota_cores=quota, memory_bytes=memory, load=0.0)) <= 8
