"""The pytest plugin: neutralises options, selects items, reports phases, stops early, and speaks with xdist.

PYTEST_DONT_REWRITE
"""

import itertools
import json
import os
import time
import traceback

import pytest

from .. import session
from ..integrity import pytest_integrity
from ..session import on_fork, template
from . import session_overrides


class SessionPlugin:
    """Plugin of the runner in a session: of the only process, of xdist's controller, or of a worker."""

    def __init__(self, spec, channel, guard, recording, runtestloop=None, *, in_worker=False):
        self._spec, self._channel, self._guard, self._recording = spec, channel, guard, recording
        self._runtestloop, self._in_worker = runtestloop, in_worker
        self._phases = PhaseRecords(channel)
        self._canaries = pytest_integrity.CanaryTests(spec.get("canaries", ()), channel)
        self._options = []
        self._hello = False
        self._session = None
        self._grouped = False
        self._errors = {}
        self._collected = False
        self._deselected = 0
        self._calls = 0
        self._started = time.perf_counter_ns()
        on_fork(self._renew)

    def _renew(self):
        """Follow the spec of a fork."""
        self._canaries = pytest_integrity.CanaryTests(self._spec.get("canaries", ()), self._channel)
        self._started = time.perf_counter_ns()
        for option in self._options:
            session_overrides.follow(option, self._spec)

    def _neutralise(self, option):
        self._options.append(option)
        session_overrides.neutralise(option, self._spec, self._in_worker)

    # ---- configuration

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_load_initial_conftests(self, early_config, args):
        """Neutralise options before a plugin reads them, and report a conftest that cannot be imported."""
        self._guard.stay_first()
        self._plugins = early_config.pluginmanager
        self.say_hello()
        args[:] = session_overrides.without_writers(args)
        self._neutralise(early_config.known_args_namespace)
        outcome = yield
        self._guard.stay_first()
        if outcome.excinfo is not None:
            self._conftest_failed(outcome.excinfo[1])

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_cmdline_parse(self):
        """Report why the command line was refused: pytest writes that to stderr only."""
        outcome = yield
        if outcome.excinfo is not None and issubclass(outcome.excinfo[0], pytest.UsageError):
            self._channel.write("internal", message=shortened(str(outcome.excinfo[1])))

    def _conftest_failed(self, error):
        path = str(getattr(error, "path", "") or "conftest.py")
        cause = getattr(error, "cause", None) or error
        lines = traceback.format_exception(type(cause), cause, cause.__traceback__)
        self._collect_phase(os.path.relpath(path, self._spec["project"]), "failed", "".join(lines))

    def say_hello(self):
        """Write the first record, once; as late as this because it names the plugins."""
        if self._hello or self._in_worker:
            return
        self._hello = True
        manager = getattr(self, "_plugins", None)
        session.hello(self._channel, pytest.__version__, plugin_names(manager) if manager else ())

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_cmdline_main(self, config):
        """Neutralise the final options before any plugin acts on them."""
        self._neutralise(config.option)
        # Overlaid tests come on top of what is run anyway, be it named or configured.
        config.args += [path for path in self._spec.get("also", ()) if path not in config.args]
        dist = getattr(config.option, "dist", None)
        self._grouped = dist == "loadgroup" or getattr(config.option, "loadgroup", False)
        if not self._in_worker:
            inifile = config.inipath
            self._channel.write(
                "config", rootdir=str(config.rootpath), inifile=str(inifile) if inifile is not None else None
            )
        yield

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session):
        """Note the session."""
        self._session = session
        self._timing("config")

    # ---- collection

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_collection(self):
        """Time the collection."""
        self._started = time.perf_counter_ns()
        yield
        self._timing("collect")

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items):
        """Keep the wanted items, after all other plugins and conftests have had their say."""
        yield
        ids = [self._id(item.nodeid) for item in items]
        while template() is not None:
            # What the point waits for will not come any more before a test asks for it.
            server = template()
            if server.until == "collected":
                session_overrides.settle(items, server.gate())
            server.stop()
        kept = self._wanted(items, ids)
        self._deselected = len(items) - len(kept)
        self._canaries.put_between(kept, self._id)
        items[:] = kept

    def _wanted(self, items, ids):
        select, order = self._spec.get("select"), self._spec.get("order")
        if order is not None:
            by_id = {}
            for item, test in zip(items, ids):
                by_id.setdefault(test, []).append(item)
            return [item for test in dict.fromkeys(order) for item in by_id.get(test, ())]
        if select is None:
            return list(items)
        wanted = frozenset(select)
        return [item for item, test in zip(items, ids) if test in wanted]

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session):
        """Report what was collected (xdist's controller collects nothing: its workers do)."""
        if not self._in_worker and not _distributes(session.config):
            self._report_collected([item.nodeid for item in session.items], _benchmarks(session))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids):
        """Report what the first worker collected; xdist itself sees to it that all collect the same."""
        self._report_collected([self._id(test) for test in ids], ())

    def _report_collected(self, ids, benchmarks):
        if not self._collected:
            self._collected = True
            errors = [{"id": test, "message": message} for test, message in self._errors.items()]
            found = {"ids": ids, "deselected": self._deselected, "errors": errors}
            self._channel.write("collected", benchmarks=list(benchmarks), **found)

    def pytest_collectreport(self, report):
        """Report modules that failed to be imported, or skip themselves."""
        if self._in_worker or report.passed:
            return
        message = shortened(report.longreprtext) if report.failed else ""
        self._collect_phase(report.nodeid, report.outcome, message)

    def _collect_phase(self, test, outcome, message):
        if self._in_worker or test in self._errors:
            return
        if outcome == "failed":
            self._errors[test] = shortened(message)
        self._phase(test, "collect", outcome, False, 0, message)

    # ---- running

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session):
        """Hand the session to `runtestloop` if there is one."""
        while template() is not None:
            # A plugin has collected in a way of its own; a template runs no tests.
            template().stop()
        if self._spec.get("collects"):
            return True  # that was all that was asked for
        if self._runtestloop is None:
            return None
        self._runtestloop(session)
        return True

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item):
        """Attribute calls to the running test: those of its fixtures, too."""
        if self._canaries.has(item.nodeid):
            make_cheap(item, "native")
            with self._recording.paused():
                yield
            return
        make_cheap(item, self._spec.get("tracebacks"))
        self._recording.set_test(self._id(item.nodeid))
        yield
        self._recording.set_test("")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report):
        """Report a phase; xdist's controller gets the reports of all workers here."""
        if self._in_worker:
            return
        test, ns, xfail = self._id(report.nodeid), int(report.duration * 1e9), hasattr(report, "wasxfail")
        if report.outcome == "passed" and report.when in PHASES and not xfail:
            self._phases.passed(test, report.when, ns)
            return
        when = report.when if report.when in PHASES else "call"
        message = shortened(report.longreprtext) if report.failed else ""
        self._phase(test, when, report.outcome, xfail, ns, message)
        if report.failed and self._decides(test):
            self._stop(report.nodeid)

    def _phase(self, test, when, outcome, xfail, ns, message):
        more = {"message": message} if outcome == "failed" else {}
        self._phases.add(dict(more, id=test, when=when, outcome=outcome, xfail=xfail, ns=ns))

    def _decides(self, test):
        stop = self._spec.get("stop")
        tolerated = stop == "decisive" and test in self._spec.get("tolerated", ())
        return stop in ("first-failure", "decisive") and not tolerated and not self._canaries.has(test)

    def _stop(self, test):
        self._session.shouldfail = reason = "%s failed" % test
        controller = self._session.config.pluginmanager.getplugin("dsession")
        if controller is not None:
            controller.shouldstop = reason

    def _id(self, nodeid):
        # xdist appends "@group" to the ids of grouped tests.
        if self._grouped and nodeid.rfind("@") > nodeid.rfind("]"):
            return nodeid.rpartition("@")[0]
        return nodeid

    # ---- the end

    def pytest_internalerror(self, excrepr):
        """Report an error of pytest or of a plugin (a test that ends the interpreter is one, too)."""
        self._phases.flush()
        self._channel.write("internal", message=shortened(str(excrepr)))

    def pytest_sessionfinish(self, session):
        """Send a worker's records home."""
        if not self._in_worker:
            return
        self._recording.finish()
        self._guard.audit()
        session.config.workeroutput["codeflash"] = json.dumps(self._channel.records)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node):
        """Prepare a new worker of xdist's before it starts a session of its own."""
        node.gateway.remote_exec(_worker_preparation(self._spec)).waitclose(60)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node):
        """Write the records that a worker brought home."""
        records = json.loads(getattr(node, "workeroutput", {}).get("codeflash", "[]"))
        first = self._calls
        for record in records:
            if "i" in record:
                # Workers number their calls on their own.
                record["i"] += first
                self._calls = max(self._calls, record["i"] + 1)
            self._channel.write(**record)

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self):
        """Time the session."""
        self._phases.flush()
        self._timing("session")

    def _timing(self, name):
        if not self._in_worker:
            now = time.perf_counter_ns()
            self._channel.write("timing", name=name, ns=now - self._started)
            self._started = now


def plugin_names(manager):
    """Return the names of the plugins that came from distributions."""
    distributed = [plugin for plugin, _ in manager.list_plugin_distinfo()]
    return sorted(name for name, plugin in manager.list_name_plugin() if plugin in distributed)


def _benchmarks(session):
    """Return the ids of the items that ask for pytest-benchmark's fixture."""
    if not hasattr(session.config, "_benchmarksession"):
        return []
    return [item.nodeid for item in session.items if "benchmark" in getattr(item, "fixturenames", ())]


def _distributes(config):
    return config.pluginmanager.hasplugin("dsession")


def _worker_preparation(spec):
    """Return the code that the controller runs in a new worker, first of all."""
    code = (
        "import sys\nsys.path.append(%r)\nfrom _codeflash_runner.pytest_plugin import pytest_session\n"
        "pytest_session.prepare(%r, %r)"
    )
    return code % (spec["runner"], spec["path"], spec.get("canaries", []))


#: The phases of a test in their order.
PHASES = ("setup", "call", "teardown")


class PhaseRecords:
    """Reports phases: those of a test that simply passed in one record at its end, all others at once."""

    def __init__(self, channel):
        self._channel = channel
        self._held = {}

    def passed(self, test, when, ns):
        """Take a phase that simply passed; sub-tests count as parts of their test's call."""
        held = self._held.setdefault(test, {})
        held[when] = held.get(when, 0) + ns
        if when != PHASES[-1]:
            return
        if held.keys() == set(PHASES):
            self._channel.write("passed", id=test, ns=[held[when] for when in PHASES])
            del self._held[test]
        else:
            self._write(test)

    def add(self, phase):
        """Take any other phase, the fields of its record."""
        self._write(phase["id"])
        self._channel.write("phase", **phase)

    def flush(self):
        """Write what is held: tests that did not come to their end."""
        for test in list(self._held):
            self._write(test)

    def _write(self, test):
        for when, ns in self._held.pop(test, {}).items():
            self._channel.write("phase", id=test, when=when, outcome="passed", xfail=False, ns=ns)


#: Longest message of a failed phase; the head says what was asked, the tail why it failed.
_HEAD, _TAIL = 3_000, 4_980
#: Of its own message, in front of the frames.
_FIRST = 1_000
#: Frames of a native traceback, the innermost ones.
_FRAMES = 20


def make_cheap(item, tracebacks):
    """Have the failures of an item told in another way than pytest's, if `tracebacks` says so."""
    if tracebacks == "none":
        item.repr_failure = item._repr_failure_py = plain_failure
    elif tracebacks == "native" and hasattr(item, "obj") and not hasattr(item, "dtest"):
        # Doctests and other plugins' items have texts of their own.
        item._repr_failure_py = native_failure


def plain_failure(excinfo, style=None):  # noqa: ARG001 - pytest's signature
    """Return one line on a failure: making tracebacks takes most of a failing test's time."""
    return message_of(excinfo.value)[:_FIRST]


def native_failure(excinfo, style=None):  # noqa: ARG001 - pytest's signature
    """Return the message of a failure, its frames below the test runner's, and the message once more."""
    error, here = excinfo.value, os.getcwd() + os.sep
    message = message_of(error)
    stack = list(itertools.dropwhile(_is_runners, traceback.extract_tb(excinfo.tb)))[-_FRAMES:]
    frames = [
        "%s:%d: in %s\n    %s" % (frame.filename.removeprefix(here), frame.lineno, frame.name, frame.line)
        for frame in stack
    ]
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    before = [] if cause is None else ["after %s" % message_of(cause)[:_FIRST]]
    return shortened("\n".join([message[:_FIRST], "", *frames, *before, message]))


def message_of(error):
    """Return the name of an exception's type and its text."""
    argument = getattr(error, "argname", None)
    try:
        text = "fixture %r not found" % argument if argument and not getattr(error, "msg", "") else str(error)
    except BaseException as own:
        text = "<its text cannot be made: %s>" % type(own).__name__
    return "%s: %s" % (type(error).__name__, text)


def _is_runners(frame):
    return "/_pytest/" in frame.filename or "/pluggy/" in frame.filename


def shortened(text):
    """Return a text of at most 8,000 characters."""
    if len(text) <= _HEAD + _TAIL + 20:
        return text
    return "%s\n[...]\n%s" % (text[:_HEAD], text[-_TAIL:])
