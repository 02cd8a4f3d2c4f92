"""Names in modules and classes, and whether they still stand for the same functions and code."""

import functools
import gc
import hashlib
import itertools
import json
import signal
import sys
import threading
import time
import types

from . import memory_fields

#: Our own package, whatever it is called where it is installed.
PACKAGE = __package__.partition(".")[0]
#: Modules of the standard library by which the runner looks at results.
_ASKED = (gc, hashlib, json, signal, sys, threading, time)
_FUNCTION = types.FunctionType
_bases_of = type.__dict__["__mro__"].__get__
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
        spaces: namespaces, as `Namespace`.
        codes: a function, its name, its code and its defaults.
        around: a closure's cell, its name and the function that it held.
    """

    def __init__(self):
        self.spaces, self.codes, self.around = [], [], []
        self._taken = set()
        self._batches = []

    def take(self, name, space, owner=None):
        """Take what runs of a namespace.

        Args:
            owner: the class whose namespace it is.
        """
        found = [(key, value) for key, value in list(space.items()) if type(value) in _KINDS]
        self.spaces.append(Namespace(name, space, owner, found))
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

    def seal(self):
        """Watch from now on, in memory, what was taken since the last time: unchanged parts cost no look."""
        begin = self._unsealed()
        if begin[0] < len(self.spaces):
            self._batches.append(_Batch(self, *begin))

    def _unsealed(self):
        if not self._batches:
            return 0, 0, 0
        return self._batches[-1].ends

    def suspects(self):
        """Return the namespaces, codes and closures that may have been changed: the others were not."""
        parts = self.spaces, self.codes, self.around
        found = [[part[begin:]] for part, begin in zip(parts, self._unsealed())]
        for batch in self._batches:
            for lists, more in zip(found, batch.suspects()):
                lists.append(more)
        return [list(itertools.chain(*lists)) for lists in found]

    def changed(self, suspects=None):
        """Return which names stand for something else by now, and for what.

        Args:
            suspects: what `suspects` has returned, if that is known already.
        """
        spaces, codes, around = suspects or self.suspects()
        found = [change for space in spaces for change in space.changed()]
        found += [
            ("code of %s.%s" % (n, key), function)
            for function, n, key, code, defaults in codes
            if function.__code__ is not code or function.__defaults__ is not defaults
        ]
        return found + [
            ("%s.%s" % (n, key), _content(cell))
            for cell, n, key, content in around
            if _content(cell) is not content
        ]


class Namespace:
    """One namespace, as it was when it was taken."""

    __slots__ = ("_bases", "_get", "_keys", "_named", "name", "owner", "space")

    def __init__(self, name, space, owner, named):
        self.name, self.space, self.owner, self._named = name, space, owner, named
        self._get, self._keys = space.get, frozenset(space)
        self._bases = None if owner is None else _bases_of(owner)

    def changed(self):
        """Return the names that stand for something else by now, and for what."""
        get = self._get
        return [("%s.%s" % (self.name, key), get(key)) for key, value in self._named if get(key) is not value]

    def has_other_bases(self):
        """Say whether a class's bases are others now."""
        return self.owner is not None and _bases_of(self.owner) is not self._bases

    def added(self):
        """Return the names that have come since, and what they stand for."""
        space = self.space
        return [
            (key, space.get(key))
            for key in (space.keys() - self._keys if len(space) != len(self._keys) else ())
        ]


class _Batch:
    """Parts that were taken together, and the fields in memory that tell whether they are as they were."""

    def __init__(self, parts, space, code, around):
        self.ends = len(parts.spaces), len(parts.codes), len(parts.around)
        self._parts = parts.spaces[space:], parts.codes[code:], parts.around[around:]
        spaces, codes, cells = self._parts
        classes = [space for space in spaces if space.owner is not None]
        # Which part each word belongs to; a function has two.
        self._of_words = [(0, space) for space in (*spaces, *classes)]
        self._of_words += [(1, code) for code in codes for _ in range(2)] + [(2, cell) for cell in cells]
        self._fields = memory_fields.reader(
            [space.space for space in spaces],
            [space.owner for space in classes],
            [function for function, *_ in codes],
            [cell for cell, *_ in cells],
        )

    def suspects(self):
        """Return namespaces, codes and closures that may have been changed."""
        if self._fields is None:
            return self._parts
        found = {}, {}, {}
        for kind, part in map(self._of_words.__getitem__, self._fields.changed()):
            found[kind][id(part)] = part
        return [list(parts.values()) for parts in found]


def own_parts():
    """Take the functions of the runner and of the modules that it uses; the project is not loaded yet."""
    parts = FunctionIdentities()
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == PACKAGE:
            parts.take(name, vars(module))
            for key, value in list(vars(module).items()):
                if isinstance(value, type) and value.__module__ == name:
                    parts.take("%s.%s" % (name, key), vars(value), value)
    for module in _ASKED:
        parts.take(module.__name__, vars(module))
    parts.seal()
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
