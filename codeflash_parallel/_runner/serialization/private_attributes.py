"""Captured objects get the private attributes that only constructors of the code under test set.

An object of the baseline has the attributes that the baseline's code gave it. A candidate may keep more in
its objects (a compiled pattern, a position, what it once found), and sets that in `__init__`: every call with
a captured object would fail, which no user ever sees. Such an attribute is taken from an object that the
constructor makes of the same arguments; and it is not compared, because the baseline has none.
"""

import contextlib
import functools
import opcode
import sys

from . import argument_pickler, call_files

#: Names of attributes that are not compared, by class.
ADDED = {}
_STORE_ATTR = opcode.opmap["STORE_ATTR"]
#: Longest pickle of a call's arguments.
_MOST_BYTES = 64 << 20
_OWN_WAYS = ("__reduce__", "__reduce_ex__", "__getstate__")


def completed(calls, captured):
    """Return calls in which objects of classes beside the targets have what constructors set now.

    Args:
        calls: what they go to is imported.
        captured: path of the file of all captured calls; these tell what objects of the baseline have,
            however few of them are made here.
    """
    # The file is read once, and only where a constructor sets private attributes.
    blobs = functools.lru_cache(None)(lambda: [call.blob for call in call_files.read_calls(captured)])
    classes = {}
    for name in {call.meta["module"] for call in calls}:
        with contextlib.suppress(Exception):  # a module that cannot be imported: the replay says so
            kinds = [kind for kind in list(vars(sys.modules[name]).values()) if isinstance(kind, type)]
            classes.update({kind: _new(kind, blobs) for kind in kinds if kind.__module__ == name})
    classes = {kind: new for kind, new in classes.items() if new}
    if not classes:
        return calls
    try:
        for kind, new in classes.items():
            kind.__setstate__ = _setter(new)
        return [_again(call, classes) for call in calls]
    except Exception:  # a metaclass may forbid it
        return calls
    finally:
        for kind in classes:
            with contextlib.suppress(Exception):
                del kind.__setstate__


def _new(kind, blobs):
    """Return the private attributes that a class's constructor sets and that no captured object has."""
    code = getattr(vars(kind).get("__init__"), "__code__", None)
    is_plain = not hasattr(kind, "__setstate__") and all(
        getattr(kind, way, None) is getattr(object, way, None) for way in _OWN_WAYS
    )
    names = _stored(code) if code is not None and is_plain else ()
    word = kind.__name__.encode()
    held = [blob for blob in blobs() if word in blob] if names else []
    return {name for name in names if held and not any(name.encode() in blob for blob in held)}


def _again(call, classes):
    if not any(kind.__name__.encode() in call.blob for kind in classes):
        return call
    try:
        return call._replace(blob=argument_pickler.dumps(call_files.load(call), _MOST_BYTES))
    except BaseException:  # a constructor may end the process; the replay says so
        return call


def _setter(new):
    def set_state(self, state):
        _fill(self, state)
        _complete(self, new)

    return set_state


def _stored(code):
    """Return the private attributes that a function sets, of whatever object."""
    steps = range(0, len(code.co_code), 2)
    found = {code.co_names[code.co_code[at + 1]] for at in steps if code.co_code[at] == _STORE_ATTR}
    return {name for name in found if name[:1] == "_" and name[-2:] != "__"}


def _fill(value, state):
    """Set the attributes of an object that is being unpickled, as `pickle` does it."""
    held, slots = state if type(state) is tuple and len(state) == 2 else (state, None)
    if held:
        value.__dict__.update(held)
    for name, part in (slots or {}).items():
        object.__setattr__(value, name, part)


def _complete(value, names):
    from ..inputs import object_constructors  # it needs modules that are slow to import

    kind, held = type(value), object_constructors.attributes(value)
    missing = names - held.keys()
    ADDED.setdefault(kind, set()).update(missing)
    with contextlib.suppress(Exception):  # then the call fails, and says so
        made = object_constructors.attributes(object_constructors.made_again(kind, value)) if missing else {}
        for name in missing & made.keys():
            object.__setattr__(value, name, made[name])
