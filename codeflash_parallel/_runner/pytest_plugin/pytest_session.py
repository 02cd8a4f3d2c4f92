"""Run a pytest session as the evaluator wants it, and report it record by record.

In a worker of xdist this module is the plugin that ``-p`` names: its controller has prepared the worker
before anything of the project is imported, and its records go home with what xdist brings back.
PYTEST_DONT_REWRITE.
"""

import contextlib
import gc
import sys
import threading
import time

from .. import channels
from ..imports import import_guard, source_loader
from ..session import RunnerFailure, on_fork, read_spec, template

#: Exit status of pytest when it failed by itself (``ExitCode.INTERNAL_ERROR``).
_INTERNAL_ERROR = 3


def run(spec, channel, runtestloop=None):
    """Run pytest in this process and return its exit status.

    Args:
        spec: the runner's spec.
        channel: where records go.
        runtestloop: called with the session instead of running its tests.

    Raises:
        RunnerFailure: this interpreter has no pytest.
    """
    if spec.get("wrap") == "capture":
        # Inputs are written by one process.
        spec["workers"] = 0
    guard = import_guard.install(spec, channel)
    recording = TargetRecording(spec, channel, guard)
    with _nothing_is_garbage():
        pytest = _import_pytest(channel)
        from ..integrity import pytest_integrity
        from . import session_overrides, session_plugin

        source_loader.restrict_rewriter(guard.allows_bytecode)
        known = pytest_integrity.PytestIntegrity(guard.places, channel)

    # Before anything of the project is imported: it may look at the clock, or replace it.
    time.sleep(min(1.0, max(0.0, spec.get("not_before", 0.0) - time.time())))
    plugin = session_plugin.SessionPlugin(spec, channel, guard, recording, runtestloop)
    quiet = [] if spec.get("summary") else [session_overrides.OutputSuppression()]
    plugins = [plugin, known, *quiet, *_watches(spec, channel)]
    status = _main(pytest, arguments(spec), plugins, channel)
    plugin.say_hello()
    known.tell()
    recording.finish()
    guard.audit()
    return status


@contextlib.contextmanager
def _nothing_is_garbage():
    """Look for no garbage among what is imported here, now or later: it stays to the end.

    pytest looks through everything five times when it ends. Users of the collector have to thaw first:
    what a `.pth` file has made is frozen as well.
    """
    is_on = gc.isenabled()
    gc.disable()
    yield
    gc.freeze()
    if is_on:
        gc.enable()


class TargetRecording:
    """The recorder of targets' calls that a spec asks for, if any."""

    def __init__(self, spec, channel, guard):
        self._spec, self._channel, self._guard = spec, channel, guard
        self._recorder = None
        on_fork(self.start)
        self.start()

    def start(self):
        """Install the capture before the targets are imported.

        A template leaves it to its forks, unless they begin after that import, and only loads what they need.
        """
        server, watched = template(), self._spec.get("wrap", "none") != "none"
        if self._recorder is not None or not self._spec.get("targets") or not (watched or server):
            return
        from ..capture import function_wrappers

        if self._spec.get("wrap") == "announce":
            from ..capture import timing_windows

            self._recorder = function_wrappers.install(
                self._spec, self._channel, self._guard, timing_windows.CallAnnouncer
            )
        elif server is None or (server.until == "collected" and watched):
            self._recorder = function_wrappers.install(self._spec, self._channel, self._guard)

    def set_test(self, test):
        """Attribute the calls from now on to a test."""
        if self._recorder is not None:
            self._recorder.set_test(test)

    @contextlib.contextmanager
    def paused(self):
        """Record nothing that this thread does meanwhile."""
        if self._recorder is None:
            yield
            return
        me, busy = threading.get_ident(), self._recorder.busy
        busy.add(me)
        yield
        busy.discard(me)

    def finish(self):
        """Write what was recorded."""
        if self._recorder is not None:
            self._recorder.finish()


def _watches(spec, channel):
    """Return the plugin that notes processes or looks where time goes, if the spec asks."""
    if spec.get("locate"):
        from ..profile import stack_sampler

        return [stack_sampler.StackSampler(spec, channel)]
    if not spec.get("watch"):
        return []
    from ..process import process_watch

    return [process_watch.SubprocessWatch(channel)]


def _import_pytest(channel):
    started = time.perf_counter_ns()
    try:
        import pytest
    except ImportError as error:
        message = "this interpreter (%s) has no pytest: %s" % (sys.executable, error)
        raise RunnerFailure("pytest", message) from error
    channel.write("timing", name="import_pytest", ns=time.perf_counter_ns() - started)
    return pytest


def arguments(spec):
    """Return pytest's complete arguments: the evaluator's and those that keep the session to itself."""
    given = list(spec.get("args", ()))
    ours = ["-o", "cache_dir=%s/pytest-cache" % spec["private"]]
    if spec.get("workers", 0):
        ours += ["-p", "_codeflash_runner.pytest_plugin.pytest_session"]
    # What follows a "--" is no option any more.
    end = given.index("--") if "--" in given else len(given)
    return given[:end] + ours + given[end:]


def _main(pytest, args, plugins, channel):
    # Plugins and tests look at the command line.
    sys.argv[:] = [pytest.__file__.replace("__init__.py", "__main__.py"), *args]
    try:
        return int(pytest.main(args, plugins=plugins))
    except BaseException as error:  # SystemExit of a conftest, most likely
        channel.write("internal", message="%s: %s" % (type(error).__name__, error))
        return _INTERNAL_ERROR


_PREPARED = []


def prepare(path, canaries):
    """Install the import guard (and the capture) that the spec in a file asks for.

    Args:
        canaries: of this run; the controller has removed the file that they were in.
    """
    spec = dict(read_spec(path), canaries=canaries)
    channel = channels.RecordBuffer()
    guard = import_guard.install(spec, channel)
    _PREPARED.append((spec, channel, guard, TargetRecording(spec, channel, guard)))


def pytest_addoption(pluginmanager):
    """Register the hooks of a prepared worker."""
    if not _PREPARED:
        return
    from ..integrity import pytest_integrity
    from . import session_plugin

    spec, channel, guard, recording = _PREPARED[0]
    source_loader.restrict_rewriter(guard.allows_bytecode)
    plugin = session_plugin.SessionPlugin(spec, channel, guard, recording, in_worker=True)
    pluginmanager.register(plugin, "codeflash-runner")
    pluginmanager.register(pytest_integrity.PytestIntegrity(guard.places, channel), "codeflash-integrity")
