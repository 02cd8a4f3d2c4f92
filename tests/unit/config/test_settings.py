"""The table of settings: what else there is to know about a setting stands in its entry."""

from __future__ import annotations

import argparse

import pytest

from codeflash_parallel.cli.options import add_settings
from codeflash_parallel.config.settings import SETTINGS, Settings
from codeflash_parallel.config.settings_json import FREE, settings_document, settings_of
from codeflash_parallel.config.settings_table import INTEGER, NUMBER, SWITCH, SettingGroup
from codeflash_parallel.result.errors import UsageError


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
