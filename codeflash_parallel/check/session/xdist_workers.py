"""Decide whether a test run is spread over idle cores with pytest-xdist. Pure."""

from __future__ import annotations

#: Starting workers and collecting in each costs about a second, and a spread run has no warm server, which
#: spares about another; a shorter suite would lose by it.
LONG_SUITE_S = 4.0


def xdist_workers(*, suite_s: float, cores: int, in_use: int, waiting: int, has_xdist: bool) -> int:
    """Return how many xdist workers one test run gets; 0: it stays in one process.

    Args:
        suite_s: time of all setups, calls and teardowns of the baseline.
        cores: that may be used.
        in_use: slots that hold a candidate, this one included.
        waiting: candidates in line for a slot: they will want the cores.
        has_xdist: whether the project's interpreter has it.
    """
    idle = cores - in_use - waiting
    if not has_xdist or suite_s < LONG_SUITE_S or idle < 1:
        return 0
    return idle + 1
