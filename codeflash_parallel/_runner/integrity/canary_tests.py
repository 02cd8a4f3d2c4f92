"""Tests that must fail, which the evaluator makes up for one run: put between the collected items.

A canary is a function of a test module or class of the project, as any other test there: it lives in that
module's namespace, has its fixtures, and stands after one of its tests, so that nothing is torn down or set
up for it that would not be anyway. PYTEST_DONT_REWRITE
"""

import ast
import contextlib
import inspect
import linecache
import time

import pytest


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
