"""Idle cores are lent only where nobody waits for them and the suite is long enough."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.check.session.xdist_workers import LONG_SUITE_S, xdist_workers

COUNTS = st.integers(0, 20)


@given(st.floats(0, 100), st.integers(1, 20), st.integers(1, 20), COUNTS, st.booleans())
def test_no_more_processes_than_cores_that_nobody_wants(
    suite_s: float, cores: int, in_use: int, waiting: int, has_xdist: bool
) -> None:
    workers = xdist_workers(suite_s=suite_s, cores=cores, in_use=in_use, waiting=waiting, has_xdist=has_xdist)
    lends = has_xdist and suite_s >= LONG_SUITE_S and cores > in_use + waiting
    assert workers == (cores - in_use - waiting + 1 if lends else 0)
    assert workers != 1
