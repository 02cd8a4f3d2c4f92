from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _only_named_plugins(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare the projects under test the plugins of our own environment: a second a start."""
    if request.node.get_closest_marker("engine"):
        monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
