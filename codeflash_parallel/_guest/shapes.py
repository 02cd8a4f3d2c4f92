"""How values without a literal are taken apart: one handler for each kind of type, found once for each type.

A handler gets the walk and the value; it writes and returns `None`, or returns a generator of children.
"""

import _io
import builtins
import copyreg
import enum
import io
import re
import sys
import types
from collections import namedtuple
from itertools import islice

from . import foreign

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


class Unencodable(Exception):  # noqa: N818 - a fact about a value, not a failure
    """A value has no canonical form; the message says what part of it."""


def type_name(cls):
    """Return the dotted name of a type, without running a metaclass' code.

    What calls itself by the name of another type is marked: a name is no identity.
    """
    module = type.__getattribute__(cls, "__module__")
    qualname = type.__dict__["__qualname__"].__get__(cls)
    name = "%s.%s" % (module if isinstance(module, str) else "?", qualname)
    return name + " (another type of that name)" if _is_forged(cls, module, qualname) else name


def _is_forged(cls, module, qualname):
    if module == "builtins":
        return _BUILTINS.get(qualname, cls) is not cls
    found = sys.modules.get(module) if isinstance(module, str) else None
    for part in qualname.split("."):
        found = getattr(found, "__dict__", _NOTHING).get(part) if found is not None else None
    return isinstance(found, type) and found is not cls


#: As they are before any code of the project runs.
_BUILTINS = {name: value for name, value in vars(builtins).items() if isinstance(value, type)}
_NOTHING = types.MappingProxyType({})


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
    known = foreign.handler_of(cls)
    if known is not None:
        return known
    if hasattr(cls, "__next__") and not {io.StringIO, io.BytesIO} & set(bases):
        return _refuse if _io._IOBase in bases else _iterator
    if hasattr(cls, "__await__") or hasattr(cls, "__anext__"):
        return _refuse
    return _unchanging if _never_changes(cls) else _changing


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


def _never_changes(cls):
    if cls.__module__ in _UNCHANGING or not _SCALARS.isdisjoint(cls.__mro__):
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
    yield from _attributes(walk, vars(value))
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
        raise Unencodable("an iterator of more than 10,000 items")
    yield from _spent(walk, Spent(type_name(type(value)), items, ended))


def _spent(walk, value):
    walk.write("<%r " % value.name, "")
    yield value.items
    walk.write(" ", "")
    if value.ended:
        yield value.ended
    walk.write(">", "")


def _changing(walk, value):
    return None if walk.met(value) else _reduced(walk, value)


def _unchanging(walk, value):
    return _reduced(walk, value)


def _reduced(walk, value):
    name = type_name(type(value))
    try:
        reduced = _reduce(value)
    except Unencodable as error:
        walk.give_up(name, str(error))
        return
    if isinstance(reduced, str):
        walk.write("<%r>" % ("global %s.%s" % (getattr(value, "__module__", "?"), reduced)))
        return
    maker, args, state, items, pairs = (tuple(reduced) + (None,) * 4)[:5]
    walk.write("<%r " % name)
    if maker is copyreg.__newobj__ and args and args[0] is type(value):
        yield args[1:]
    else:
        yield maker
        yield _without_anonymous_factory(name, args)
    yield from _state(walk, state)
    for content in (items, pairs):
        if content is not None:
            yield list(content)
    walk.write(">")


def _reduce(value):
    try:
        special = copyreg.dispatch_table.get(type(value))
        reduced = special(value) if special else value.__reduce_ex__(4)
    except Exception as error:
        text = "%s cannot be taken apart (%s: %s)" % (type_name(type(value)), type(error).__name__, error)
        raise Unencodable(text[:300]) from None
    if isinstance(reduced, str) or (isinstance(reduced, tuple) and 2 <= len(reduced) <= 6):
        return reduced
    raise Unencodable("%s cannot be taken apart" % type_name(type(value)))


def _without_anonymous_factory(name, args):
    """Drop the name of a `defaultdict`'s lambda: it cannot be compared, and what the dict holds can."""
    factory = args[0] if name == "collections.defaultdict" and args else None
    anonymous = isinstance(factory, types.FunctionType) and "<" in factory.__qualname__
    return ("a factory",) if anonymous else args


def _state(walk, state):
    """Write the attributes of an object in the order of their names; any other state as it is."""
    parts = state if isinstance(state, tuple) and len(state) == 2 else (state,)
    if not all(part is None or _is_attributes(part) for part in parts):
        yield state
        return
    for part in parts:
        yield from _attributes(walk, part or {})


def _is_attributes(part):
    return type(part) is dict and all(type(name) is str for name in part)


def _attributes(walk, attributes):
    for name in sorted(attributes):
        walk.write(" %s=" % name)
        yield attributes[name]


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
