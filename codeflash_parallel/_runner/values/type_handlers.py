"""How values without a literal are taken apart: one handler for each kind of type, found once for each type.

A handler gets the walk and the value; it writes and returns `None`, or returns a generator of children.
"""

import _io
import enum
import io
import re
import types
from collections import namedtuple
from itertools import islice

from . import library_types
from .object_reduction import UnencodableValue, attributes, changing, unchanging
from .type_names import type_name

#: What becomes of iterators inside a value.
EXHAUST, REFUSE = "exhaust", "refuse"

#: Iterators are exhausted up to here; one with more items is not encoded.
MAX_ITEMS = 10_000

#: Handlers found so far; forgotten at this number, classes may be made by the thousand.
_MAX_FOUND = 10_000

#: Modules of the standard library whose objects never change: their identity is not observable.
_UNCHANGING = frozenset(
    ("decimal", "_decimal", "fractions", "datetime", "uuid", "pathlib", "pathlib._local", "zoneinfo", "re")
)


#: An iterator's type name, the items that it gave, and how it ended (empty: by itself).
Spent = namedtuple("Spent", "name items ended")  # noqa: PYI024 - typing is slow to import


def handler_of(cls):
    """Return the handler for exactly this type."""
    found = _FOUND.get(cls)
    if found is None:
        if len(_FOUND) > _MAX_FOUND:
            _FOUND.clear()
            _FOUND.update(_BUILTIN)
        found = _FOUND[cls] = _classify(cls)
    return found


def _classify(cls):
    bases = cls.__mro__
    for base, handler in _BASES:
        if base in bases:
            return handler
    if _ENCODERS:
        return _own
    return _usual(cls)


def _usual(cls):
    bases = cls.__mro__
    known = library_types.handler_of(cls)
    if known is not None:
        return known
    if hasattr(cls, "__next__") and not {io.StringIO, io.BytesIO} & set(bases):
        return _refuse if _io._IOBase in bases else _iterator
    if hasattr(cls, "__await__") or hasattr(cls, "__anext__"):
        return _refuse
    if not _SCALARS.isdisjoint(bases):
        return _scalar
    return unchanging if _never_changes(cls) else changing


#: The user's functions: loaded when the first value comes that is no builtin.
_ENCODERS = []
_USUAL = {}


def take_encoders(places):
    """Have functions of the user asked about every value that is no builtin, enumeration, type or exception.

    Args:
        places: (file, name) of each function. It gets a value and returns what it is made of, or
            `NotImplemented` for one that is not its own.
    """
    _ENCODERS[:] = [[file, name, None] for file, name in places]
    _FOUND.clear()
    _FOUND.update(_BUILTIN)


def _own(walk, value):
    """Write a value by the parts that a function of the user gives, if one knows it."""
    for encoder in _ENCODERS:
        if encoder[2] is None:
            encoder[2] = _loaded(encoder[0], encoder[1])
        parts = encoder[2](value)
        if parts is not NotImplemented:
            return None if walk.met(value) else _tagged(walk, type_name(type(value)), parts)
    kind = type(value)
    if kind not in _USUAL:
        _USUAL[kind] = _usual(kind)
    return _USUAL[kind](walk, value)


def _loaded(file, name):
    module = types.ModuleType("codeflash_encoder")
    with open(file, "rb") as source:
        exec(compile(source.read(), file, "exec"), module.__dict__)
    return getattr(module, name)


def _scalar(walk, value):
    # One with attributes may change, and know others that know it, as tokens and nodes of trees do.
    return (changing if getattr(value, "__dict__", None) else unchanging)(walk, value)


def _never_changes(cls):
    if cls.__module__ in _UNCHANGING:
        return True
    frozen = getattr(getattr(cls, "__dataclass_params__", None), "frozen", False)
    return frozen is True


_SCALARS = frozenset({int, float, complex, str, bytes, tuple, frozenset})


def _refuse(walk, value):
    name = type_name(type(value))
    walk.give_up(name, "%s has no canonical form" % name)


def _named(walk, value):
    walk.write("<%r>" % ("class " + type_name(value)))


def _module(walk, value):
    walk.write("<%r>" % ("module " + str(value.__name__)))


def _function(walk, value):
    name = "function %s.%s" % (value.__module__, value.__qualname__)
    if "<" in value.__qualname__:
        return walk.give_up(name, "a function that has no name to find it by: %s" % value.__qualname__)
    return walk.write("<%r>" % name)


def _builtin(walk, value):
    owner = value.__self__
    if owner is None or isinstance(owner, types.ModuleType):
        return walk.write("<%r>" % ("builtin %s.%s" % (value.__module__, value.__qualname__)))
    return _bound(walk, owner, value.__qualname__)


def _method(walk, value):
    return _bound(walk, value.__self__, getattr(value.__func__, "__qualname__", "?"))


def _bound(walk, owner, name):
    walk.write("<%r " % ("method " + name))
    yield owner
    walk.write(">")


def _literal(walk, value):
    walk.write(repr(value))


def _complex(walk, value):
    text = "complex(%r, %r)" % (value.real, value.imag)
    walk.keep_floats((value.real, value.imag))
    walk.write_floats(text, "complex(~, ~)", text)


def _bytearray(walk, value):
    if not walk.met(value):
        walk.write("bytearray(%r)" % bytes(value), repr(bytes(value)))


def _range(walk, value):
    walk.write(repr(value))


def _slice(walk, value):
    return _tagged(walk, "slice", (value.start, value.stop, value.step))


def _memoryview(walk, value):
    return _tagged(walk, "memoryview", (value.format, value.shape, value.tobytes()))


def _match(walk, value):
    return _tagged(walk, "match", (value.re, value.string, value.regs, value.pos, value.endpos))


def _view(walk, value):
    return _tagged(walk, type(value).__name__, list(value))


def _proxy(walk, value):
    return _tagged(walk, "mappingproxy", dict(value))


def _tagged(walk, tag, content):
    walk.write("<%r " % tag, "")
    yield content
    walk.write(">", "")


def _enum(walk, value):
    return _tagged(walk, type_name(type(value)), value._value_)


def _exception(walk, value):
    if walk.met(value):
        return
    walk.write("<%r " % type_name(type(value)))
    yield BaseException.args.__get__(value)
    yield from attributes(walk, vars(value))
    walk.write(">")


def _iterator(walk, value):
    if walk.iterators == REFUSE:
        name = type_name(type(value))
        return walk.give_up(name, "%s can be read only once" % name)
    return _exhausted(walk, value)


def _exhausted(walk, value):
    items, ended = [], ""
    try:
        items.extend(islice(value, MAX_ITEMS + 1))
    except BaseException as error:
        ended = "raises %r" % type_name(type(error))
    if len(items) > MAX_ITEMS:
        raise UnencodableValue("an iterator of more than 10,000 items")
    yield from _spent(walk, Spent(type_name(type(value)), items, ended))


def _spent(walk, value):
    begin_spent(walk, value.name)
    yield value.items
    yield from end_spent(walk, value.ended)


def begin_spent(walk, name):
    """Write what stands before the items of an iterator."""
    walk.write("<%r " % name, "")


def end_spent(walk, ended):
    """Write how an iterator has ended."""
    walk.write(" ", "")
    if ended:
        yield ended
    walk.write(">", "")


_BUILTIN = {
    complex: _complex,
    bytearray: _bytearray,
    range: _range,
    slice: _slice,
    memoryview: _memoryview,
    re.Match: _match,
    type(Ellipsis): _literal,
    type(NotImplemented): _literal,
    Spent: _spent,
    types.FunctionType: _function,
    types.BuiltinFunctionType: _builtin,
    types.MethodType: _method,
    types.ModuleType: _module,
    types.MappingProxyType: _proxy,
    type({}.keys()): _view,
    type({}.values()): _view,
    type({}.items()): _view,
}
_BASES = ((type, _named), (BaseException, _exception), (enum.Enum, _enum), (types.ModuleType, _module))
_FOUND = dict(_BUILTIN)
