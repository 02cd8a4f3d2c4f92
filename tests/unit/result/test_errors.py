"""Callers get one error of ours, never the task group that happened to carry it."""

from __future__ import annotations

import pytest

from codeflash_parallel.result.errors import EnvironmentFault, UsageError, ungrouped


def test_a_group_of_ours_becomes_its_first() -> None:
    inner = ExceptionGroup("inner", [EnvironmentFault("NO_SLOT", "No slot."), UsageError("X", "x")])
    with pytest.raises(EnvironmentFault, match="No slot"), ungrouped():
        raise ExceptionGroup("outer", [inner])


def test_a_group_with_a_defect_in_it_stays_a_group() -> None:
    with pytest.raises(ExceptionGroup), ungrouped():
        raise ExceptionGroup("outer", [EnvironmentFault("NO_SLOT", "No slot."), ZeroDivisionError()])
