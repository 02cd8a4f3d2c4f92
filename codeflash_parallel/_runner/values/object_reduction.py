"""Objects taken apart by what they give to be copied: their maker, its arguments, their state and items."""

import copyreg
import functools
import types
from collections import Counter

from ..serialization.private_attributes import ADDED
from .copy_protocol import note, note_state
from .type_names import type_name

#: Objects of one class that the replays of a process take apart: a second or two.
MOST_OBJECTS = 100_000
#: Those so far, while calls are replayed; else nothing is counted.
_counts = []


def count_anew():
    """Count the objects that are taken apart from now on."""
    _counts[:] = [Counter()]


def count_no_more():
    """Take apart whatever comes."""
    _counts.clear()


class UnencodableValue(Exception):  # noqa: N818 - a fact about a value, not a failure
    """A value has no canonical form; the message says what part of it."""


def changing(walk, value):
    """Write an object that may change: one that was met before is written as a reference to it."""
    return None if walk.met(value) else unchanging(walk, value)


def unchanging(walk, value):
    """Write an object whose identity is not observable."""
    name = type_name(type(value))
    note(type(value))
    _count(type(value), name)
    try:
        reduced = _reduced(value)
    except UnencodableValue as error:
        return walk.give_up(name, str(error))
    if isinstance(reduced, str):
        return walk.write("<%r>" % ("global %s.%s" % (getattr(value, "__module__", "?"), reduced)))
    return _parts(walk, value, name, reduced)


def _count(cls, name):
    for counts in _counts:
        counts[cls] += 1
        if counts[cls] > MOST_OBJECTS:
            raise UnencodableValue(
                "after %d objects of %s in all calls no more are looked at" % (MOST_OBJECTS, name)
            )


def _reduced(value):
    try:
        special = copyreg.dispatch_table.get(type(value))
        reduced = special(value) if special else value.__reduce_ex__(4)
    except Exception as error:
        text = "%s cannot be taken apart (%s: %s)" % (type_name(type(value)), type(error).__name__, error)
        raise UnencodableValue(text[:300]) from None
    if isinstance(reduced, str) or (isinstance(reduced, tuple) and 2 <= len(reduced) <= 6):
        return reduced
    raise UnencodableValue("%s cannot be taken apart" % type_name(type(value)))


def _parts(walk, value, name, reduced):
    maker, args, state, items, pairs = (tuple(reduced) + (None,) * 4)[:5]
    walk.write("<%r " % name)
    if maker is copyreg.__newobj__ and args and args[0] is type(value):
        yield args[1:]
    else:
        yield maker
        yield _without_anonymous_factory(name, args)
    yield from _state(walk, type(value), state)
    for content in (items, pairs):
        if content is not None:
            yield list(content)
    walk.write(">")


def _without_anonymous_factory(name, args):
    """Drop the name of a `defaultdict`'s lambda: it cannot be compared, and what the dict holds can."""
    factory = args[0] if name == "collections.defaultdict" and args else None
    anonymous = isinstance(factory, types.FunctionType) and "<" in factory.__qualname__
    return ("a factory",) if anonymous else args


def _state(walk, cls, state):
    """Write the attributes of an object in the order of their names; any other state as it is."""
    if issubclass(cls, functools.partial) and type(state) is tuple and state[-1:] == ({},):
        state = (*state[:-1], None)  # its attributes begin to exist when somebody looks at them
    parts = state if isinstance(state, tuple) and len(state) == 2 else (state,)
    if not all(part is None or _is_by_name(part) for part in parts):
        yield state
        return
    added = ADDED.get(cls)
    for part in parts:
        note_state(cls, part or {})
        by_name = {name: part[name] for name in part if name not in added} if part and added else part
        yield from attributes(walk, by_name or {})


def _is_by_name(part):
    return type(part) is dict and all(type(name) is str for name in part)


def attributes(walk, by_name):
    """Write attributes in the order of their names."""
    for name in sorted(by_name):
        walk.write(" %s=" % name)
        yield by_name[name]
