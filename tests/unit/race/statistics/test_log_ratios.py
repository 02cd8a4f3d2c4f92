"""Which of two figures a claim is made from: that on the tests' inputs or that on unseen ones."""

from __future__ import annotations

import pytest
from ranking_cases import PLAN

from codeflash_parallel.race.measurement import DecidingClock
from codeflash_parallel.race.plan import NULL
from codeflash_parallel.race.statistics.log_ratios import ArmLogRatios, claimed

CONFIRMATION = PLAN.confirmation(10**9)
#: Rounds that scatter: the mean is 0.
SCATTER = (-0.4, 0.4, -0.3, 0.3, -0.5, 0.5)


def made(known: float, unseen: float) -> ArmLogRatios:
    seen = tuple(known + one for one in SCATTER)
    others = tuple(unseen - one for one in SCATTER)
    return ArmLogRatios(total=seen, groups=(), clock=DecidingClock.CPU, unseen=others, known=seen)


@pytest.mark.parametrize(
    ("known", "unseen", "is_unseen"), [(0.2, 0.0, True), (0.2, 0.15, False), (0.1, 0.2, False)]
)
def test_a_confirmation_counts_the_lower_figure_where_it_is_lower_on_average(
    known, unseen, is_unseen
) -> None:
    arm = made(known, unseen)
    found = claimed({"x": arm}, "x", CONFIRMATION)
    assert found.total == (arm.unseen if is_unseen else arm.total)


def test_the_figure_on_known_inputs_counts_where_twins_cannot_be_trusted_or_are_missing() -> None:
    arm = made(0.2, 0.0)
    assert claimed({"x": arm, NULL: made(0.15, 0.0)}, "x", CONFIRMATION).total == arm.total
    assert claimed({"x": arm, NULL: made(0.0, 0.0)}, "x", CONFIRMATION).total == arm.unseen
    assert (
        claimed({"x": ArmLogRatios(total=arm.total, groups=(), clock=arm.clock)}, "x", CONFIRMATION).total
        == arm.total
    )
