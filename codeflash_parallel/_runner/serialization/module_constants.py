"""Constants of modules that code knows by identity: sentinels, and token types as lexers have them.

A copy of one is another object: code that asks `is` answers otherwise when a call is made again with it.
"""

import importlib
import sys
import weakref

#: Values of these types, and of types made of them, do not change.
_IMMUTABLE = (tuple, str, bytes, int, float, frozenset)
_ATOMS = (str, bytes, int, float, bool, type(None))
#: Constants of one type that are looked for, at most.
_MOST = 10_000
_HEAP_TYPE = 1 << 9
#: By type: constants by identity, and how many modules there were when they were looked for.
_KNOWN = weakref.WeakKeyDictionary()


def place_of(obj):
    """Return the module of a constant and the names that lead to it from there; None of any other object."""
    kind = type(obj)
    if kind is not object and not (_is_immutable(kind, obj) or _is_bare(kind, obj)):
        return None
    if type(kind).__hash__ is not type.__hash__:
        return None
    known, modules = _KNOWN.get(kind, ({}, 0))
    if id(obj) not in known and (len(sys.modules) != modules or (known and _state(obj))):
        known = _constants(kind)
        _KNOWN[kind] = known, len(sys.modules)
    place = known.get(id(obj))
    return place if place and find(*place) is obj else None


def find(module, *names):
    """Return a constant."""
    found = importlib.import_module(module)
    for name in names:
        found = getattr(found, name)
    return found


def _state(obj):
    return obj.__dict__ if type(obj).__dictoffset__ else {}


def _is_immutable(kind, obj):
    """Say whether an object of the project's own type can hold nothing but values that do not change."""
    if not kind.__flags__ & _HEAP_TYPE or not issubclass(kind, _IMMUTABLE):
        return False
    return not issubclass(kind, (tuple, frozenset)) or all(type(item) in _ATOMS for item in obj)


def _is_bare(kind, obj):
    """Say whether an object holds nothing: all that it can be is itself."""
    is_own = all(base is object or base.__flags__ & _HEAP_TYPE for base in kind.__mro__)
    return is_own and kind.__dictoffset__ and not _state(obj) and not _has_slots(kind)


def _has_slots(kind):
    return any(vars(base).get("__slots__") for base in kind.__mro__)


def _constants(kind):
    """Return where the constants of a type are, by identity: those of its package, and what hangs on them."""
    package = kind.__module__.partition(".")[0]
    found, pending = {}, []
    for name, module in list(sys.modules.items()):
        if kind is object or name.partition(".")[0] == package:
            held = getattr(module, "__dict__", None)
            own = list(held.items()) if type(held) is dict else []
            pending += [(value, (name, one)) for one, value in own if type(value) is kind]
    for value, place in pending:  # it grows meanwhile
        if id(value) not in found and len(found) < _MOST:
            found[id(value)] = place
            parts = list(_state(value).items())
            pending += [(part, (*place, one)) for one, part in parts if type(part) is kind]
    return found
