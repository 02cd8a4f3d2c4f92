"""What a pytest session does only for people, and for the next session: left out where neither will come.

PYTEST_DONT_REWRITE
"""

import contextlib
import os

import pytest

from . import current


class Unseen:
    """Ends a session without what is meant for people and for the next session.

    Nobody is asked for the summary, for which hypothesis imports nearly all of itself, and nothing is noted
    in pytest's cache: its folder is the slot's, which is emptied at once. A fork writes no progress either:
    should it die, its check is made again in a process of its own, whose last words are kept.
    """

    def __init__(self):
        self._config = None
        current.on_fork(self._hush)

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config):
        """Take the configuration."""
        self._config = config

    def _hush(self):
        from _pytest.terminal import TerminalReporter

        if self._config is None or current.server() is not None:
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

    def count(report):
        reporter._tests_ran = True
        status = config.hook.pytest_report_teststatus(report=report, config=config)
        reporter._add_stats(status[0], [report])

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


def settle(items, files):
    """Have pytest find out where tests stand: forks need not do it again then.

    Args:
        items: that were collected.
        files: absolute paths, without links, of files whose lines may move yet; tests there are left alone.
    """
    for item in items:
        if isinstance(item, pytest.Function) and type(item).reportinfo is pytest.Function.reportinfo:
            with contextlib.suppress(Exception):  # it fails again where it is asked for
                if os.path.realpath(item.reportinfo()[0]) not in files:
                    item.location  # noqa: B018 - it keeps what it gives
