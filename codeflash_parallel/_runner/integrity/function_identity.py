"""Names in modules and classes, and whether they still stand for the same functions and code."""

import functools
import gc
import hashlib
import json
import signal
import sys
import threading
import time
import types

#: Our own package, whatever it is called where it is installed.
PACKAGE = __package__.partition(".")[0]
#: Modules of the standard library by which the runner looks at results.
_ASKED = (gc, hashlib, json, signal, sys, threading, time)
_FUNCTION = types.FunctionType
_CACHED = type(functools.lru_cache(len))
_KINDS = frozenset(
    {
        _FUNCTION,
        staticmethod,
        classmethod,
        property,
        type,
        types.MethodType,
        types.BuiltinFunctionType,
        _CACHED,
    }
)


class FunctionIdentities:
    """Names in modules and classes, and what they stood for when they were taken.

    Attributes:
        named: what a name is called, the namespace's `get`, the name, and its function or class.
        codes: a function, its name, its code and its defaults; `around`: functions that it was made around.
    """

    def __init__(self):
        self.named, self.codes, self.around = [], [], []
        self._taken = set()

    def take(self, name, space):
        """Take what runs of a namespace."""
        get = space.get
        found = [(key, value) for key, value in list(space.items()) if type(value) in _KINDS]
        self.named += [(name, get, key, value) for key, value in found]
        for key, value in found:
            if type(value) is not type:
                for function in functions(value):
                    self._take_function(name, key, function)

    def _take_function(self, name, key, function):
        if id(function) in self._taken:
            return
        self._taken.add(id(function))
        self.codes.append((function, name, key, function.__code__, function.__defaults__))
        for cell in function.__closure__ or ():
            content = _content(cell)
            if type(content) is _FUNCTION:
                self.around.append((cell, name, key, content))

    def changed(self):
        """Return which names stand for something else by now, and for what."""
        renamed = [(n, key, get(key)) for n, get, key, value in self.named if get(key) is not value]
        recoded = [
            ("code of " + n, key, function)
            for function, n, key, code, defaults in self.codes
            if function.__code__ is not code or function.__defaults__ is not defaults
        ]
        inside = [
            (n, key, _content(cell)) for cell, n, key, content in self.around if _content(cell) is not content
        ]
        return [("%s.%s" % (name, key), by) for name, key, by in (*renamed, *recoded, *inside)]


def own_parts():
    """Take the functions of the runner and of the modules that it uses; the project is not loaded yet."""
    parts = FunctionIdentities()
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == PACKAGE:
            parts.take(name, vars(module))
            for key, value in list(vars(module).items()):
                if isinstance(value, type) and value.__module__ == name:
                    parts.take("%s.%s" % (name, key), vars(value))
    for module in _ASKED:
        parts.take(module.__name__, vars(module))
    return parts


def bare(function):
    """Return the function of a method."""
    return getattr(function, "__func__", function)


def functions(value):
    """Return the functions in a function, a method of whatever kind, or a property."""
    found = (value.fget, value.fset, value.fdel) if type(value) is property else (bare(value),)
    return [function for function in found if type(function) is _FUNCTION]


def _content(cell):
    try:
        return cell.cell_contents
    except ValueError:
        return None
