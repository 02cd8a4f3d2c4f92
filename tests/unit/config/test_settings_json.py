"""Settings as JSON and back, and which of them a resumed run may change."""

from __future__ import annotations

import pytest

from codeflash_parallel.config.settings import ComparisonMode, Settings
from codeflash_parallel.config.settings_json import changed_settings, settings_document, settings_of
from codeflash_parallel.result.errors import EnvironmentFault


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
