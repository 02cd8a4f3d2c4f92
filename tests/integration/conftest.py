from __future__ import annotations

from pathlib import Path

import pytest
from guest_runs import keep_guests_in
from projects import make_project


@pytest.fixture(autouse=True)
def _only_named_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare the projects under test the plugins of our own environment: a second a start."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


@pytest.fixture(scope="session", autouse=True)
def _guests_of_this_session(tmp_path_factory: pytest.TempPathFactory) -> None:
    keep_guests_in(tmp_path_factory.mktemp("guests"))


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a `project`, which no test changes, and room for its `cache`: all of a module share it."""
    base = tmp_path_factory.mktemp("shop")
    make_project(base / "project")
    return base
