"""What a race of identical code tells, and the sentence where it tells nothing."""

from __future__ import annotations

import pytest

from codeflash_parallel.cli.doctor_race import RaceCheck, RaceDuration, _found
from codeflash_parallel.race.race_result import RaceFailed
from codeflash_parallel.result.errors import EnvironmentFault


def test_rows_say_what_was_seen_and_how_long_a_gain_takes_here():
    check = RaceCheck(
        work="w",
        rounds=12,
        void=2,
        seconds=5.0,
        budget_s=45.0,
        unit_sd=0.012,
        called_faster=("same",),
        needed=(RaceDuration(gain=0.02, seconds=90.0), RaceDuration(gain=0.1, seconds=0.3)),
    )

    assert check.rows() == [
        ("rounds", "12 in 5 s, 2 of them void"),
        ("spread of a round", "1.2 % (standard deviation between identical arms)"),
        ("called faster", "yes, falsely (the baseline's own code)"),
        ("2 % faster", "about 90 s, more than the budget of 45 s"),
        ("10 % faster", "about 1 s"),
    ]


def test_a_race_that_could_not_be_held_tells_nothing():
    with pytest.raises(EnvironmentFault, match="cannot be tried here: no process"):
        _found(RaceFailed(candidates=("same",), reason="no process"))
