"""Options and output of a session that would break or slow a check, and their replacements.

Options are set on the parsed options, by name and only where they exist, so that neither an absent plugin
nor one that the project has disabled is an error. Output for people, and notes for the next session, are
left out.

PYTEST_DONT_REWRITE
"""

import contextlib
import os
import types

import pytest

from ..process import current_template

#: Names and values by destination; each group with its reason.
_VALUES = {
    # Stopping, asking and listing: every test runs, whatever the others did, and nobody is there to answer.
    "maxfail": 0,
    "usepdb": False,
    "trace": False,
    "collectonly": False,
    "setuponly": False,
    "setupplan": False,
    "setupshow": False,
    "lf": False,
    "failedfirst": False,
    "newfirst": False,
    "stepwise": False,
    "stepwise_skip": False,
    "stepwise_reset": False,
    "cacheshow": None,
    "testmon": False,
    # Looks.
    "color": "no",
    "showlocals": False,
    # Output files and services.
    "xmlpath": None,
    "htmlpath": None,
    "json_report": False,
    "json_report_file": None,
    "report_log": None,
    "resultlog": None,
    "md_report": False,
    "md_report_output": None,
    "csv_path": None,
    "allure_report_dir": None,
    "ctrf": None,
    "pastebin": None,
    "pytest_profiling": False,
    "profile": False,
    "profile_svg": False,
    "memray": False,
    "codspeed": False,
    # Coverage traces every line; it is not ours to collect.
    "cov_source": [],
    "cov_fail_under": None,
    "no_cov": True,
    # Order is the baseline's.
    "randomly_reorganize": False,
    "random_order": False,
    "random_order_bucket": "none",
    "reverse": False,
    # Processes of their own.
    "forked": False,
    "boxed": False,
    "looponfail": False,
    "distload": False,
    "maxprocesses": None,
    # pytest-benchmark repeats calls as long as its clock likes; once is enough to see that they work.
    "benchmark_disable": True,
    "benchmark_only": False,
    "benchmark_autosave": False,
    "benchmark_save": None,
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

    Nobody is asked for the summary, for which hypothesis imports nearly all of itself, and nothing is noted
    in pytest's cache: its folder is the slot's, which is emptied at once. A fork writes no progress either:
    should it die, its check is made again in a process of its own, whose last words are kept.
    """

    def __init__(self):
        self._config = None
        current_template.on_fork(self._hush)

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config):
        """Take the configuration."""
        self._config = config

    def _hush(self):
        from _pytest.terminal import TerminalReporter

        if self._config is None or current_template.server() is not None:
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
