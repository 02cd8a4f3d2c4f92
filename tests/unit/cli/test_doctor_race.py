"""What `doctor --race` shows of a race, and the races that tell nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from codeflash_parallel.cli.doctor_race import PREFIX, RaceCheck, RaceDuration, _found, _new_folder
from codeflash_parallel.race.race_result import RaceFailed
from codeflash_parallel.result.errors import EnvironmentFault

CHECK = RaceCheck(
    work="some work",
    rounds=20,
    void=0,
    seconds=8.0,
    budget_s=30.0,
    unit_sd=0.012,
    called_faster=(),
    needed=(RaceDuration(gain=0.02, seconds=45.0), RaceDuration(gain=0.1, seconds=0.4)),
)


def test_the_rows_say_what_the_machine_can_tell_in_its_budget() -> None:
    rows = dict(CHECK.rows())
    assert rows["rounds"] == "20 in 8 s"
    assert rows["spread of a round"].startswith("1.2 %")
    assert rows["called faster"].startswith("no ")
    assert rows["2 % faster"] == "about 45 s, more than the budget of 30 s"
    assert rows["10 % faster"] == "about 1 s"


def test_void_rounds_and_false_claims_are_told() -> None:
    rows = dict(replace(CHECK, void=3, called_faster=("same",)).rows())
    assert rows["rounds"].endswith("3 of them void")
    assert rows["called faster"].startswith("yes, falsely")


def test_a_race_that_could_not_be_held_is_a_fault_of_the_machine() -> None:
    with pytest.raises(EnvironmentFault, match="the launcher is gone") as caught:
        _found(RaceFailed(candidates=("same",), reason="the launcher is gone"))
    assert caught.value.code == "RACE_UNFIT"


def test_folders_of_killed_processes_are_removed(tmp_path: Path) -> None:
    (tmp_path / f"{PREFIX}left").mkdir()
    (tmp_path / "other").mkdir()
    with _new_folder(tmp_path) as made:
        assert Path(made).parent == tmp_path
        assert {path.name for path in tmp_path.iterdir()} == {"other", Path(made).name}
