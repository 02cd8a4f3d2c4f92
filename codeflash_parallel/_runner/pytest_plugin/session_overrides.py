"""Options and output of a session that would break or slow a check, and their replacements.

Options are set on the parsed options, by name and only where they exist, so that neither an absent plugin
nor one that the project has disabled is an error. Output for people, and notes for the next session, are
left out.

PYTEST_DONT_REWRITE
"""

import contextlib
import os

import pytest

from ..session import on_fork, template

#: Options that are switched off; each group with its reason.
_OFF = (
    # Stopping, asking and listing: every test runs, whatever the others did, and no user is there to answer.
    *(
        "usepdb",
        "trace",
        "collectonly",
        "setuponly",
        "setupplan",
        "setupshow",
        "lf",
        "failedfirst",
        "newfirst",
    ),
    *("stepwise", "stepwise_skip", "stepwise_reset", "testmon"),
    # Looks, output files and services.
    *(
        "showlocals",
        "json_report",
        "md_report",
        "pytest_profiling",
        "profile",
        "profile_svg",
        "memray",
        "codspeed",
    ),
    # Order is the baseline's; no processes of their own.
    *("randomly_reorganize", "random_order", "reverse", "forked", "boxed", "looponfail", "distload"),
    *("benchmark_only", "benchmark_autosave"),
)
#: Options without a value: caches, files that are written, limits.
_NONE = (
    *("cacheshow", "xmlpath", "htmlpath", "json_report_file", "report_log", "resultlog", "md_report_output"),
    *(
        "csv_path",
        "allure_report_dir",
        "ctrf",
        "pastebin",
        "cov_fail_under",
        "maxprocesses",
        "benchmark_save",
    ),
)
_VALUES = {
    **dict.fromkeys(_OFF, False),
    **dict.fromkeys(_NONE),
    "maxfail": 0,
    "color": "no",
    "random_order_bucket": "none",
    # Coverage traces every line; it is not ours to collect.
    "cov_source": [],
    "no_cov": True,
    # pytest-benchmark repeats calls as long as its clock likes; once is enough to see that they work.
    "benchmark_disable": True,
}

#: How xdist may spread tests; other values are set to "load".
_SPREADS = frozenset({"load", "loadscope", "loadfile", "loadgroup", "worksteal"})


def neutralise(option, spec, in_worker):
    """Set the options in a namespace to what a check needs.

    Args:
        in_worker: this is a process of xdist's; its places and numbers are xdist's business.
    """
    for name, value in _VALUES.items():
        _set(option, name, value)
    follow(option, spec)
    if not in_worker:
        _set(option, "basetemp", spec["private"] + "/basetemp")
        _set(option, "benchmark_storage", "file://%s/benchmarks" % spec["private"])
        _workers(option, spec.get("workers", 0))


def follow(option, spec):
    """Set the options that forks of one template may have different."""
    _set(option, "tbstyle", "no" if spec.get("tracebacks") == "none" else "short")
    _set(option, "randomly_seed", spec.get("seed", 0))


def _workers(option, workers):
    _set(option, "numprocesses", workers)
    _set(option, "tx", [])
    if not workers:
        _set(option, "dist", "no")
    elif getattr(option, "dist", "load") not in _SPREADS:
        _set(option, "dist", "load")


def _set(option, name, value):
    if hasattr(option, name):
        setattr(option, name, value)


def without_writers(args):
    """Return arguments without those that open files while they are parsed."""
    return [arg for arg in args if not (arg == "--debug" or arg.startswith(("--debug=", "--benchmark-json")))]


class OutputSuppression:
    """Ends a session without what is meant for people and for the next session.

    No plugin is asked for the summary, for which hypothesis imports nearly all of itself; nothing is noted
    in pytest's cache: its folder is the slot's, which is emptied at once. A fork writes no progress either:
    should it die, its check is made again in a process of its own, whose output is kept.
    """

    def __init__(self):
        self._config = None
        on_fork(self._write_nothing)

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config):
        """Take the configuration."""
        self._config = config

    def _write_nothing(self):
        from _pytest.terminal import TerminalReporter

        if self._config is None or template() is not None:
            return
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        # Another plugin's reporter may do more than write.
        if type(reporter) is TerminalReporter:
            _hush(reporter, self._config)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session):
        """Leave out summary and cache while the session ends."""
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


def _hush(reporter, config):
    """Let pytest's own terminal reporter count reports, as others may ask for them, and write nothing."""

    def count(report):
        reporter._tests_ran = True
        category = config.hook.pytest_report_teststatus(report=report, config=config)[0]
        reporter._add_stats(category, [report])

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
    """Have pytest find out where tests stand, once for all forks.

    Args:
        items: collected ones.
        files: absolute paths, without links, of files whose lines may move yet; tests there are left alone.
    """
    for item in items:
        with contextlib.suppress(Exception):  # it fails again where it is asked for
            if isinstance(item, pytest.Function) and os.path.realpath(item.reportinfo()[0]) not in files:
                item.location  # noqa: B018 - it keeps what it gives
