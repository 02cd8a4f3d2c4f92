"""Audit events; in the first baseline run, tests that start processes, and modules from elsewhere.

There is one audit hook for all listeners: hooks stay for good, and each slows down every `id()` of a test.
"""

import os
import sys
import sysconfig
from os import getpid
from sys import _getframe

from ..slot_paths import both_forms, under

_LISTENERS = {}
_INSTALLED = []

#: Audit events of starting a process or becoming another program.
STARTS = frozenset(
    {
        "subprocess.Popen",
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "os.system",
        "os.exec",
        "os.spawn",
        "pty.spawn",
    }
)

#: Programs that tell libraries about the machine while these are imported (`ctypes.util`, `platform`, with
#: them trio and many others); none of them runs code of the project.
_TOOLS = frozenset(
    {"ldconfig", "ld", "gcc", "cc", "objdump", "uname", "file", "nproc", "lscpu", "lsb_release"}
)

#: Distributions of pytest itself: there wherever tests run.
_PYTESTS_OWN = frozenset({"_pytest", "pytest", "pluggy", "iniconfig", "py", "_codeflash_runner"})


def listen(events, tell):
    """Have `tell` called with name and arguments of audit events; the frame that raised one is two up."""
    if not _INSTALLED:
        _INSTALLED.append(True)
        sys.addaudithook(_hook)
    for event in events:
        _LISTENERS[event] = [*_LISTENERS.get(event, ()), tell]


def _hook(event, args):
    if event in _LISTENERS:
        for tell in _LISTENERS[event]:
            tell(event, args)


def is_tool(event, args):
    """Say whether an audit event starts a program that only tells something about the machine."""
    if event not in ("subprocess.Popen", "os.posix_spawn"):
        return False
    program = args[0]
    return isinstance(program, (str, bytes)) and os.path.basename(os.fsdecode(program)) in _TOOLS


def _wrap_multiprocessing(tell):
    """Watch the primitive that `multiprocessing` uses to spawn: it raises no audit event."""
    import _posixsubprocess

    fork_exec = _posixsubprocess.fork_exec

    def watched(*args):
        # `subprocess` has raised its audit event.
        if _getframe(1).f_globals.get("__name__") != "subprocess":
            tell()
        return fork_exec(*args)

    _posixsubprocess.fork_exec = watched


#: Modules between a change of the environment and its audit event.
_SETTERS = frozenset({"os", "collections.abc", "_collections_abc", "_pytest.monkeypatch"})


class SubprocessWatch:
    """Pytest plugin of the first baseline run.

    Writes a "spawned" record, once, for each test that starts processes or runs while such a one lives (an
    empty id: something outside of tests does), and "modules" at the end: what was imported from elsewhere,
    until the project changed the environment: what is imported later may read that.
    Costs one Python call for each audit event, and nothing a test until a process is started.
    """

    def __init__(self, channel, places):
        self._channel, self._places = channel, places
        self._test, self._told, self._pid = "", set(), getpid()
        self._started = False
        self._before = frozenset(sys.modules)
        self._until = None
        listen(STARTS, self._process_started)
        _wrap_multiprocessing(self._tell)
        listen(["os.putenv", "os.unsetenv"], self._environment_changed)

    def pytest_runtest_logstart(self, nodeid):
        """Attribute what is started from now on to a test."""
        self._test = nodeid
        if self._started and nodeid not in self._told and has_children():
            # A server that an earlier test's fixture started may run the target for this one, too.
            self._tell()

    def pytest_runtest_logfinish(self):
        """Attribute it to none."""
        self._test = ""

    def pytest_unconfigure(self):
        """Tell which modules there are."""
        until = sys.modules if self._until is None else self._until
        names = [name for name in third_party(self._places) if name in until and name not in self._before]
        self._channel.write("modules", names=names)

    def _environment_changed(self, event, args):  # noqa: ARG002 - the signature of listeners
        if self._until is None and self._places.relative(_changer(_getframe(2))) is not None:
            self._until = frozenset(sys.modules)

    def _process_started(self, event, args):
        if not is_tool(event, args):
            self._tell()

    def _tell(self):
        self._started = True
        if self._test not in self._told and getpid() == self._pid:
            self._told.add(self._test)
            self._channel.write("spawned", id=self._test)


def _changer(frame):
    """Return the file whose code changes the environment."""
    while frame.f_back is not None and frame.f_globals.get("__name__") in _SETTERS:
        frame = frame.f_back
    return frame.f_code.co_filename


def has_children():
    """Say whether this process has children, besides the resource tracker of `multiprocessing`."""
    tracker = sys.modules.get("multiprocessing.resource_tracker")
    own = str(getattr(getattr(tracker, "_resource_tracker", None), "_pid", None))
    return any(child != own for child in _children())


def _children():
    for thread in os.listdir("/proc/self/task"):
        try:
            with open("/proc/self/task/%s/children" % thread) as file:
                yield from file.read().split()
        except OSError:
            # The thread has just ended, or this kernel does not list children: there may be some.
            yield "?"


def third_party(places):
    """Return the names of modules from outside of the slot, Python and pytest, in the order of import."""
    library = _library_folders()
    names = list(sys.modules)
    return [name for name in names if _is_third_party(name, places, library)]


def _is_third_party(name, places, library):
    spec = getattr(sys.modules.get(name), "__spec__", None)
    # An alias (`os.path`, `six.moves`) cannot be imported by the name it is kept under.
    if spec is None or getattr(spec, "name", None) != name or not getattr(spec, "has_location", False):
        return False
    if name.partition(".")[0] in _PYTESTS_OWN or not isinstance(spec.origin, str):
        return False
    is_ours = places.relative(spec.origin) is not None or places.mapped(spec.origin) is not None
    return not is_ours and not _is_library(spec.origin, library)


def _is_library(origin, library):
    packages = "/site-packages/" in origin or "/dist-packages/" in origin
    return not packages and any(under(origin, folder) for folder in library)


def _library_folders():
    paths = sysconfig.get_paths()
    return [form for key in ("stdlib", "platstdlib") for form in both_forms(paths[key])]
