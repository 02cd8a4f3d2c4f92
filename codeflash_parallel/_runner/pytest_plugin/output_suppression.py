"""What a pytest session does only for people, and for the next session: left out where neither will come.

PYTEST_DONT_REWRITE
"""

import contextlib
import os
import types

import pytest

from ..session import on_fork, template


class OutputSuppression:
    """Ends a session without what is meant for people and for the next session.

    Nobody is asked for the summary, for which hypothesis imports nearly all of itself, and nothing is noted
    in pytest's cache: its folder is the slot's, which is emptied at once. A fork writes no progress either:
    should it die, its check is made again in a process of its own, whose last words are kept.
    """

    def __init__(self):
        self._config = None
        on_fork(self._hush)

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config):
        """Take the configuration."""
        self._config = config

    def _hush(self):
        from _pytest.terminal import TerminalReporter

        if self._config is None or template() is not None:
            return
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        # A reporter of somebody else's may do more than write.
        if type(reporter) is TerminalReporter:
            hush(reporter, self._config)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session):
        """Have nobody asked while the session ends."""
        hook = session.config.hook
        asked, hook.pytest_terminal_summary = hook.pytest_terminal_summary, _Nobody()
        cache = getattr(session.config, "cache", None)
        if cache is not None:
            cache.set = lambda key, value: None  # noqa: ARG005 - pytest's signature
        yield
        hook.pytest_terminal_summary = asked


class _Nobody:
    """A hook without implementations."""

    def __call__(self, **_arguments):
        return []

    def get_hookimpls(self):
        return []


def hush(reporter, config):
    """Let pytest's own terminal reporter count reports, as others may ask for them, and write nothing."""

    known = {}

    def count(report):
        reporter._tests_ran = True
        reporter._add_stats(_category(report, config, known), [report])

    quiet = {
        "pytest_runtest_logstart": _nothing,
        "pytest_runtest_logreport": count,
        "pytest_runtest_logfinish": _nothing,
    }
    for name, function in quiet.items():
        for implementation in getattr(config.hook, name).get_hookimpls():
            if implementation.plugin is reporter:
                implementation.function = function


def _nothing(*_arguments):
    return None


def _category(report, config, known):
    """Return under which word the terminal counts a report.

    Args:
        known: answers that are kept: pytest's own on setups and teardowns depend on their outcome alone.
    """
    hook = config.hook.pytest_report_teststatus
    kind = (report.when, report.outcome, hasattr(report, "wasxfail"), len(hook.get_hookimpls()))
    if kind in known and type(report) is pytest.TestReport:
        return known[kind]
    category = hook(report=report, config=config)[0]
    if report.when in ("setup", "teardown") and _is_pytests_own(hook):
        known[kind] = category
    return category


def _is_pytests_own(hook):
    """Say whether nobody but pytest itself implements a hook."""
    modules = [getattr(found.function, "__module__", None) or "" for found in hook.get_hookimpls()]
    return all(module.startswith("_pytest.") for module in modules)


def settle(items, files=()):
    """Have pytest find out where tests stand, once for all that one function makes.

    Args:
        items: that were collected.
        files: absolute paths, without links, of files whose lines may move yet; tests there are left alone.
    """
    places = {}
    for item in items:
        if isinstance(item, pytest.Function) and type(item).reportinfo is pytest.Function.reportinfo:
            with contextlib.suppress(Exception):  # it fails again where it is asked for
                _settle(item, files, places)


def _settle(item, files, places):
    function = getattr(item.obj, "__func__", item.obj)
    if function in places:
        item.__dict__["location"] = (*places[function], item.getmodpath())
    elif os.path.realpath(item.reportinfo()[0]) not in files:
        location = item.location  # it keeps what it gives
        if type(function) is types.FunctionType:
            places[function] = location[:2]
