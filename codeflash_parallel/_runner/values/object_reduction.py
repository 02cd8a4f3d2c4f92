"""Objects taken apart by what they give to be copied: their maker, its arguments, their state and items.

A class may define its own way of being copied, and so shadow what its objects hold. Each such way is noted,
once for a class; a candidate must have no others than the baseline.
"""

import collections
import copyreg
import enum
import functools
import hashlib
import pathlib
import re
import sys
import types
from collections import Counter

from .call_files import ADDED
from .value_text import type_name

#: Methods that say what an object holds, and others through which that is read.
_TELLING = ("__reduce_ex__", "__reduce__", "__getstate__", "__getnewargs_ex__", "__getnewargs__")
_READING = ("__getattribute__", "__dict__", "__class__")
#: Methods that give the items of a subclass of a container: only that there are any is noted.
_ITEMS = ("__iter__", "items")

#: Classes of which no more is to be noted, with the names that their data descriptors shadow.
_SEEN = {}
_NOTED = set()
#: Classes may be made by the thousand.
_MOST_SEEN = 10_000


def note(cls):
    """Note how objects of a class give what they hold."""
    if cls in _SEEN:
        return
    if len(_SEEN) > _MOST_SEEN:
        _SEEN.clear()
    _SEEN[cls] = _shadowing(cls)
    name = type_name(cls)
    reducer = copyreg.dispatch_table.get(cls)
    if reducer is not None and not _is_standard(reducer):
        _NOTED.add("%s: copyreg %s" % (name, _fingerprint(reducer)))
    for method in _TELLING + _READING:
        found = _special(cls, method)
        if found is not None:
            _NOTED.add("%s: %s %s" % (name, method, _fingerprint(found)))
    if not {list, tuple, dict, set, frozenset}.isdisjoint(_mro(cls)):
        _NOTED.update("%s: %s" % (name, method) for method in _ITEMS if _special(cls, method) is not None)


def _note_state(cls, state):
    """Note the attributes that are not what one reads under their names: a property stands before them."""
    for name in _SEEN.get(cls, ()):
        if name in state:
            _NOTED.add("%s: %s is shadowed" % (type_name(cls), name))


def noted():
    """Return what was noted, in order."""
    return sorted(_NOTED)


#: As they are, whatever a metaclass says.
_mro, _own = type.__dict__["__mro__"].__get__, type.__dict__["__dict__"].__get__


def _special(cls, name):
    """Return what a class has under a name where that is none of the interpreter's own; `None` otherwise."""
    for base in _mro(cls):
        if name in _own(base):
            found = _own(base)[name]
            return None if base in _PLAIN or _is_usual(found) else found
    return None


def _is_usual(found):
    """Return whether it is C code, the standard library's own, or what `dataclass` makes with slots."""
    if type(found) in _OF_C:
        return True
    dataclasses = sys.modules.get("dataclasses")
    made = getattr(dataclasses, "_dataclass_getstate", None)
    return (made is not None and found is made) or _is_standard(found)


#: Attributes of classes that are written in C; they refuse objects of all other classes.
_OF_C = (types.GetSetDescriptorType, types.MethodDescriptorType, types.WrapperDescriptorType)
_PLAIN = frozenset(
    {object, int, float, complex, str, bytes, bytearray, tuple, list, dict, set, frozenset, BaseException}
)


def _shadowing(cls):
    """Return the names of the data descriptors of a class, slots apart."""
    found = set()
    for base in _mro(cls):
        for name, value in list(_own(base).items()):
            kind = type(value)
            if kind not in _STORING and any("__set__" in _own(one) for one in _mro(kind)):
                found.add(name)
    return frozenset(found)


_STORING = frozenset({types.MemberDescriptorType, types.GetSetDescriptorType})


def _fingerprint(found):
    """Return a digest of a method's code, wherever its file lies, and of the module of its globals."""
    if type(found) is not types.FunctionType:
        return type_name(type(found))
    module = sys.modules.get(found.__module__)
    home = found.__module__ if getattr(module, "__dict__", None) is found.__globals__ else "?"
    text = repr((home, _code(found.__code__)))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _code(code):
    constants = [_code(one) if isinstance(one, types.CodeType) else _constant(one) for one in code.co_consts]
    return (code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars)


def _constant(value):
    # A set of constants has no order that lasts.
    return sorted(map(repr, value)) if type(value) is frozenset else repr(value)


def _is_standard(found):
    """Return whether a function is the standard library's own, as it was before code of a project ran."""
    if type(found) is not types.FunctionType or found.__defaults__ or _fingerprint(found) not in _STANDARD:
        return False
    return all(cell.cell_contents is tuple for cell in found.__closure__ or ())  # of named tuples


def _telling(modules):
    """Yield the functions by which classes of some modules say what they hold, and those of `copyreg`."""
    classes = [cls for module in modules for cls in vars(module).values() if isinstance(cls, type)]
    for cls in [*classes, collections.namedtuple("Made", "")]:  # noqa: PYI024 - its methods are the point
        yield from (vars(cls)[name] for name in _TELLING if type(vars(cls).get(name)) is types.FunctionType)
    yield from copyreg.dispatch_table.values()


re.compile("")  # `re` has registered how patterns are copied
_STANDARD = frozenset(map(_fingerprint, _telling((collections, enum, pathlib))))


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
    kind = type(value)
    name = walk.name_of(kind)
    note(kind)
    _count(kind, name)
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
        state = (*state[:-1], None)  # its attributes begin to exist when they are read
    parts = state if isinstance(state, tuple) and len(state) == 2 else (state,)
    if not all(part is None or _is_by_name(part) for part in parts):
        yield state
        return
    added = ADDED.get(cls)
    for part in parts:
        _note_state(cls, part or {})
        by_name = {name: part[name] for name in part if name not in added} if part and added else part
        yield from attributes(walk, by_name or {})


def _is_by_name(part):
    return type(part) is dict and all(type(name) is str for name in part)


def attributes(walk, by_name):
    """Write attributes in the order of their names."""
    for name in sorted(by_name):
        walk.write(" %s=" % name)
        yield by_name[name]
