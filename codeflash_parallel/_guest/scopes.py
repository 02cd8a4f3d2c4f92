"""The pytest plugin that tells which calls of targets are for one test alone.

PYTEST_DONT_REWRITE
"""

import pytest


class Scopes:
    """Pytest plugin that tells a recorder what is executed for one test alone."""

    def __init__(self, touches):
        self._touches = touches
        touches.told = True

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_call(self):
        """Attribute the test itself to it."""
        before = self._touches.set_own(True)
        yield
        self._touches.set_own(before)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_fixture_setup(self, fixturedef):
        """Attribute fixtures of a single test to it, and no others."""
        before = self._touches.set_own(fixturedef.scope == "function")
        yield
        self._touches.set_own(before)
