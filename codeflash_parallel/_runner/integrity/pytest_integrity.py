"""Evidence that pytest tells the truth: functions of it that were replaced, and tests that must fail.

Code that replaces a function of the test runner can let canaries fail and other tests pass. Each replacement
is recorded, by the name and by what has taken its place: plugins of the project may do so, the same ones for
every candidate.

A canary is a test that must fail, made up by the evaluator for one run: a function of a test module or class
of the project, as any other test there. It lives in that module's namespace, has its fixtures, and stands
after one of its tests, so that nothing is torn down or set up for it that would not be anyway.
PYTEST_DONT_REWRITE
"""

import ast
import builtins
import contextlib
import hashlib
import inspect
import linecache
import sys
import time
import types

import pytest

from .function_identity import PACKAGE, FunctionIdentities, bare, functions

#: Packages whose modules are the runner: ours is a part of it.
_PACKAGES = ("_pytest", "pytest", "pluggy", "unittest", PACKAGE)
#: What every test goes through: looked at around each one. Modules, and names of classes in them.
_CENTRAL = {
    "_pytest.runner": ("", "CallInfo", "SetupState"),
    "_pytest.python": ("Function",),
    "_pytest.reports": ("TestReport", "BaseReport"),
    "pluggy._hooks": ("HookCaller",),
    "pluggy._caller": ("HookCaller",),
    "pluggy._callers": ("",),
    "pluggy._execution": ("",),
    "unittest.case": ("_Outcome",),
}
#: Attributes that the runner uses of every test: one that has its own is not run as others are.
_OF_ITEMS = frozenset({"runtest", "setup", "teardown", "ihook", "listchain"})
#: How much of a name is told.
_LONGEST = 200
_namespace_of = type.__dict__["__dict__"].__get__


class PytestIntegrity:
    """A plugin that knows the runner as it is now, and tells what of it is replaced later.

    Args:
        places: tells which files are the project's.
        channel: where it is told.
    """

    def __init__(self, places, channel):
        self._places, self._channel = places, channel
        self._ours = {id(vars(module)) for name, module in list(sys.modules.items()) if _is_ours(name)}
        self._ours.update(_workers_own())
        self._parts, self._central = FunctionIdentities(), FunctionIdentities()
        self._known = set()
        self._builtins = frozenset(vars(builtins))
        self._manager = self._inner = None
        self._replaced = set()
        self._has_looked = False
        self._parts.take(builtins.__name__, vars(builtins))
        self._take_modules()

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_load_initial_conftests(self, early_config):
        """Take what came with the configuration, before any conftest is imported."""
        self._manager = early_config.pluginmanager
        self._inner = getattr(self._manager, "_inner_hookexec", None)
        self._take_modules()
        yield

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self):
        """Look at what imports have left: a template does so once for all that are forked after it."""
        self._look()
        self._has_looked = True

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session):
        """Look once more after the tests; before them where a plugin has collected in a way of its own."""
        if not self._has_looked:
            self._look()
        tests = [(item, item.__dict__.get("_obj")) for item in getattr(session, "items", ())]
        codes = [(item, found, getattr(bare(found), "__code__", None)) for item, found in tests]
        yield
        self._look()
        for item, found, code in codes:
            if getattr(bare(found), "__code__", None) is not code:
                self._note("code of the test %s" % item.name, found)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item):
        """Look at what a test is going to be run by."""
        self._glance()
        for name in _OF_ITEMS.intersection(item.__dict__):
            self._note("%s of a test" % name, item.__dict__[name])

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self):
        """Look at what reports on a test that has been run."""
        self._glance()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self):
        """Tell it before a worker of xdist's sends its records home."""
        self.tell()

    def tell(self):
        """Write what was replaced, if anything, once."""
        if self._replaced:
            self._channel.write("replaced", names=sorted(self._replaced))
            self._replaced.clear()

    # ---- what there is

    def _take_modules(self):
        """Take the runner's modules that have come since."""
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] in _PACKAGES and id(module) not in self._known:
                self._known.add(id(module))
                self._take_module(name, vars(module))
        self._parts.seal()

    def _take_module(self, name, space):
        central = _CENTRAL.get(name, ())
        self._take(name, space, None, central)
        for key, value in list(space.items()):
            if isinstance(value, type) and value.__module__ == name:
                self._take(key, _namespace_of(value), value, central)

    def _take(self, name, space, owner, central):
        called = name if owner is None else "%s.%s" % (owner.__module__, name)
        self._parts.take(called, space, owner)
        if (name if owner else "") in central:
            self._central.take(called, space)

    # ---- what is left of it

    def _glance(self):
        """Look at what every test goes through."""
        for what, by in self._central.changed():
            self._note(what, by)

    def _look(self):
        """Look at everything; what came after the project's code must hold none of it."""
        first = len(self._parts.codes)
        self._take_modules()
        for function, name, key, code, _ in self._parts.codes[first:]:
            if self._places.relative(code.co_filename) is not None:
                self._note("%s.%s" % (name, key), function)
        suspects = self._parts.suspects()
        for what, by in self._parts.changed(suspects):
            self._note(what, by)
        for space in suspects[0]:
            self._look_for_more(space)
        self._look_at_hooks()
        if sys.gettrace() is not None:
            self._note("sys.settrace", sys.gettrace())

    def _look_for_more(self, space):
        if space.has_other_bases():
            self._note("bases of %s" % space.name, None)
        for key, value in space.added():
            if hasattr(type(value), "__get__") if space.owner is not None else key in self._builtins:
                self._note("%s.%s" % (space.name, key), value)

    def _look_at_hooks(self):
        if self._manager is None:
            return
        inner = getattr(self._manager, "_inner_hookexec", None)
        if inner is not self._inner:
            self._note("the manager of hooks", inner)
        for name, function in self._implementations():
            # Plugins of distributions are other ones where tests are distributed.
            if not _is_installed(function, self._places):
                self._note("hook %s" % name, function)

    def _implementations(self):
        """Yield names and functions of hooks."""
        for name, hook in list(vars(self._manager.hook).items()):
            for found in hook.get_hookimpls() if name.startswith("pytest_") else ():
                yield name, bare(found.function)

    # ---- what is told

    def _note(self, what, by):
        by = next(iter(functions(by)), by)
        # We replace some functions by ours, and never what one of ours does.
        if what.startswith("code of ") or id(getattr(by, "__globals__", None)) not in self._ours:
            self._replaced.add(("%s by %s" % (what, self._described(by)))[:_LONGEST])

    def _described(self, by):
        """Name what has taken a place; where candidates may not change the file, with what it does."""
        if not isinstance(by, types.FunctionType):
            return "%s.%s" % (type(by).__module__, type(by).__qualname__)
        code = by.__code__
        named = "%s.%s" % (by.__module__, by.__qualname__)
        path = self._places.relative(code.co_filename)
        if path is not None and not path.endswith("conftest.py"):
            return "%s in %s" % (named, path)
        return "%s, %s" % (named, hashlib.sha256(_essence(code).encode()).hexdigest()[:16])


def _is_ours(name):
    return name.partition(".")[0] == PACKAGE


def _is_installed(function, places):
    """Say whether a function is that of a module outside of the project's tree, as its file has it."""
    module = sys.modules.get(getattr(function, "__module__", None))
    file = getattr(module, "__file__", None)
    is_own = getattr(function, "__globals__", None) is getattr(module, "__dict__", module)
    return is_own and file == _file(function) and places.relative(file) is None


def _workers_own():
    """Return the identity of the namespace that runs a worker of xdist's, which is in no module."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__") == "__channelexec__":
            return {id(frame.f_globals)}
        frame = frame.f_back
    return set()


def _file(function):
    code = getattr(function, "__code__", None)
    return getattr(code, "co_filename", None)


def _essence(code):
    """Return what a code does, without where it stands."""
    consts = [_essence(c) if isinstance(c, types.CodeType) else _constant(c) for c in code.co_consts]
    return repr((code.co_code.hex(), code.co_names, consts))


def _constant(value):
    return repr(sorted(map(repr, value)) if isinstance(value, frozenset) else value)


class CanaryTests:
    """The canaries of one run.

    Args:
        orders: of the evaluator: "name", "after" (the id of the test that it follows), "lines" of its body.
        channel: where it is told how long it takes to make them.
    """

    def __init__(self, orders, channel):
        self._orders, self._channel = orders, channel
        self._names = {order["name"] for order in orders}

    def put_between(self, items, id_of):
        """Put them between items, in place.

        Args:
            id_of: returns the id that the evaluator knows an item by.
        """
        began = time.perf_counter_ns()
        for order in self._orders:
            place = _last(items, order["after"], id_of)
            try:
                made = _made(items[place], order)
            except Exception:
                continue  # the evaluator sees that it was not run
            items.insert(place + 1, made)
        if self._orders:
            self._channel.write("timing", name="canaries", ns=time.perf_counter_ns() - began)

    def has(self, nodeid):
        """Say whether an id is one of theirs: no test has their names."""
        return bool(self._names) and nodeid.partition("[")[0].rpartition("::")[2] in self._names


def _last(items, test, id_of):
    """Return the index of the last item of a test; of the last item where that test is not there."""
    found = [index for index, item in enumerate(items) if id_of(item.nodeid) == test]
    return found[-1] if found else len(items) - 1


def _made(neighbour, order):
    """Return an item beside another one."""
    if not isinstance(neighbour, pytest.Function):
        raise TypeError("%s is no function" % neighbour.nodeid)
    parent = neighbour.parent
    owner = parent.obj if inspect.isclass(parent.obj) or inspect.ismodule(parent.obj) else type(parent.obj)
    function = _function(neighbour, order, in_class=inspect.isclass(owner))
    setattr(owner, order["name"], function)
    if not hasattr(parent, "_genfunctions") or hasattr(parent, "nofuncargs"):
        return type(neighbour).from_parent(parent, name=order["name"])
    found = list(parent._genfunctions(order["name"], function))
    return max(found, key=lambda item: _likeness(item, neighbour))


def _likeness(item, neighbour):
    """Say in how many parameters of shared fixtures an item is as its neighbour is."""
    mine, theirs = (getattr(getattr(one, "callspec", None), "params", {}) for one in (item, neighbour))
    return sum(name in theirs and value is theirs[name] for name, value in mine.items())


def _function(neighbour, order, in_class):
    """Compile the body as a function of the neighbour's module, at a place beside the neighbour's."""
    beside = getattr(neighbour.obj, "__func__", neighbour.obj)
    beside = getattr(beside, "__wrapped__", beside)
    head = "def %s(%s):\n" % (order["name"], "self" if in_class else "")
    tree = ast.parse(head + "".join("    %s\n" % line for line in order["lines"]))
    module = neighbour.getparent(pytest.Module).obj
    code = getattr(beside, "__code__", None)
    ast.increment_lineno(tree, _line(code, module.__file__) - 1)
    names = {}
    exec(compile(tree, module.__file__, "exec"), module.__dict__, names)
    function = names[order["name"]]
    function.__module__ = module.__name__
    function.__qualname__ = beside.__qualname__.rpartition(".")[0] + "." * in_class + order["name"]
    return function


def _line(code, file):
    """Return a line of the module that exists."""
    if code is not None and code.co_filename == file:
        return code.co_firstlineno
    with contextlib.suppress(OSError, ValueError):
        return max(1, len(linecache.getlines(file)) // 2)
    return 1
