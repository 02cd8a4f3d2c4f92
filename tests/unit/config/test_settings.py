"""The table of settings: what else there is to know about a setting stands in its entry."""

from __future__ import annotations

import argparse

import pytest

from codeflash_parallel.cli.options import add_settings
from codeflash_parallel.config.settings import (
    FREE,
    SETTINGS,
    ComparisonMode,
    Executor,
    Settings,
    changed_settings,
    settings_document,
    settings_of,
)
from codeflash_parallel.config.settings_table import INTEGER, NUMBER, SWITCH, SettingGroup
from codeflash_parallel.result.errors import EnvironmentFault, UsageError


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_is_spelled_and_explained(name: str) -> None:
    row = SETTINGS[name]
    assert row.help.endswith(".")
    assert row.metavar or row.kind == SWITCH
    assert row.default == getattr(Settings(), name)


def test_spellings_are_unique() -> None:
    flags = [flag for row in SETTINGS.values() for flag in (row.flag, row.short) if flag]
    assert len(set(flags)) == len(flags)
    assert len({row.variable for row in SETTINGS.values()}) == len(SETTINGS)


def test_every_setting_has_an_option() -> None:
    parser = argparse.ArgumentParser()
    add_settings(parser, SETTINGS.values())
    assert parser.parse_args(["-j", "3", "--tests", "a", "b"]) == argparse.Namespace(
        parallel_candidates=3, tests=["a", "b"]
    )


@pytest.mark.parametrize(
    "name", [name for name, row in SETTINGS.items() if row.kind in {INTEGER, NUMBER} and name != "confidence"]
)
def test_a_minimum_is_the_smallest_good_value(name: str) -> None:
    least = type(getattr(Settings(), name))(SETTINGS[name].minimum)
    assert getattr(Settings(**{name: least}), name) == least
    with pytest.raises(UsageError, match=f"{name} must be at least"):
        Settings(**{name: least - 1})


def test_places_change_no_verdict_and_go_into_no_document() -> None:
    places = {name for name, columns in SETTINGS.items() if columns.group == SettingGroup.PLACE}
    assert places < set(FREE)
    elsewhere = Settings(cache_dir="/x", queue_dir="/y", executor="queue", seed=3)
    assert settings_of(settings_document(elsewhere)) == Settings(seed=3)


def test_settings_come_back() -> None:
    settings = Settings(
        functions=("a.py::f",), compare=ComparisonMode.PASS_FAIL, wall_budget=1.5, keep_slots=True
    )
    assert settings_of(settings_document(settings)) == settings
    assert settings_of(settings_document(settings), wall_budget=2.0).wall_budget == 2.0


def test_settings_that_change_a_verdict_are_named() -> None:
    document = settings_document(Settings(timeout=3.0))
    assert changed_settings(document, Settings(timeout=3.0, wall_budget=9.0, cache_dir="elsewhere")) == []
    assert changed_settings(document, Settings()) == ["timeout"]


def test_settings_of_another_version_are_refused() -> None:
    with pytest.raises(EnvironmentFault, match="unheard_of"):
        settings_of({"unheard_of": 1})


@pytest.mark.parametrize("name", ["isolation", "require_isolation"])
def test_a_level_that_does_not_exist_is_named(name: str) -> None:
    with pytest.raises(UsageError, match=r"must be one of .*, not 'L9'\."):
        Settings(**{name: "L9"})


def test_an_empty_level_is_quoted() -> None:
    with pytest.raises(UsageError, match=r"not ''\."):
        Settings(isolation="")


def test_two_executors_are_clusters() -> None:
    assert {executor.value for executor in Executor if executor.is_cluster} == {"ray", "slurm"}
