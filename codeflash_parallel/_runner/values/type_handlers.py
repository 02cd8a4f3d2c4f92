"""Handlers that take apart values without a literal: one for each kind of type, found once for each type.

A handler gets the walk and the value; it writes and returns `None`, or returns a generator of children. Types
of numpy and pandas are told by their modules' names: neither is imported for it.
"""

import _io
import enum
import functools
import io
import re
import sys
import types
from collections import namedtuple
from itertools import islice

from .object_reduction import UnencodableValue, attributes, changing, unchanging
from .value_text import type_name

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
    known = _library_handler(cls)
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
    _ENCODERS[:] = [tuple(place) for place in places]
    _FOUND.clear()
    _FOUND.update(_BUILTIN)


def _own(walk, value):
    """Write a value by the parts that a function of the user gives, if one knows it."""
    for place in _ENCODERS:
        parts = _loaded(*place)(value)
        if parts is not NotImplemented:
            return None if walk.met(value) else _tagged(walk, type_name(type(value)), parts)
    kind = type(value)
    if kind not in _USUAL:
        _USUAL[kind] = _usual(kind)
    return _USUAL[kind](walk, value)


@functools.cache
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
    walk.write("<%r>" % ("class " + walk.name_of(value)))


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
    range: _literal,
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


def _library_handler(cls):
    """Return the handler for a type of numpy or pandas, or `None`."""
    root = str(cls.__module__).partition(".")[0]
    numpy, pandas = sys.modules.get("numpy"), sys.modules.get("pandas")
    if root == "numpy" and numpy is not None:
        return _of_numpy(cls, numpy)
    if root == "pandas" and pandas is not None:
        return _of_pandas(cls, pandas)
    return None


def _of_numpy(cls, numpy):
    if cls is numpy.ndarray:
        return _array
    if numpy.generic in cls.__mro__:
        return _numpy_scalar
    if numpy.dtype in cls.__mro__:
        return _dtype
    return _ufunc if cls is numpy.ufunc else None


def _of_pandas(cls, pandas):
    if cls is pandas.DataFrame:
        return _frame
    if cls is pandas.Series:
        return _series
    if cls in (pandas.Index, pandas.RangeIndex):
        return _index
    return None


def _tag(walk, text):
    walk.write("<%r " % text, "")


def _array(walk, value):
    if walk.met(value):
        return None
    _tag(walk, "numpy.ndarray %s %s" % (value.dtype.str, value.shape))
    dtype = value.dtype
    if dtype.hasobject or dtype.names or dtype.kind not in "biufcSUmM" or _is_long(dtype):
        return _items(walk, value)
    _write_numbers(walk, value)
    walk.write(">", "")
    return None


def _is_long(dtype):
    """Return whether it is a long double, whose bytes hold garbage as padding."""
    return dtype.kind in "fc" and dtype.itemsize > (16 if dtype.kind == "c" else 8)


def _items(walk, value):
    if value.dtype.names or value.dtype.hasobject:
        yield value.tolist()
    else:
        yield [repr(item) for item in value.ravel()]
    walk.write(">", "")


def _write_numbers(walk, value):
    if value.dtype.kind in "fc":
        value = _with_one_nan(value)
    text = value.tobytes().hex()
    less = _as_floats(value).tobytes().hex() if value.dtype.kind in "biuf" else text
    if value.dtype.kind in "fc":
        walk.keep_floats(value.ravel().view(value.real.dtype).tolist() if walk.floats is not None else ())
        walk.write_floats(text, "~", less)
    else:
        walk.write(text, less)


def _as_floats(value):
    """Unify numbers by value (integers beyond 2**53 round, which only blurs *how* two values differ)."""
    return value.astype("f8")


def _with_one_nan(value):
    """Give every nan the same bits."""
    strange = value != value  # noqa: PLR0124 - true of nan only
    if strange.any():
        value = value.copy()
        value[strange] = float("nan")
    return value


def _numpy_scalar(walk, value):
    _tag(walk, "%s %s" % (type(value).__qualname__, value.dtype.str))
    plain = value.item()
    # A long double and a datetime in nanoseconds have no plain counterpart.
    yield plain if type(plain).__module__ == "builtins" and value.dtype.kind not in "mM" else str(value)
    walk.write(">", "")


def _dtype(walk, value):
    walk.write("<%r>" % ("dtype %s" % (value.descr if value.names else value.str)))


def _ufunc(walk, value):
    walk.write("<%r>" % ("ufunc " + value.__name__))


def _frame(walk, value):
    if walk.met(value):
        return
    _tag(walk, "pandas.DataFrame")
    columns = [_values(value.iloc[:, number]) for number in range(len(value.columns))]
    yield (value.columns, value.index, columns, value.attrs)
    walk.write(">", "")


def _series(walk, value):
    if walk.met(value):
        return
    _tag(walk, "pandas.Series")
    yield (value.name, value.index, _values(value), value.attrs)
    walk.write(">", "")


def _index(walk, value):
    _tag(walk, "pandas." + type(value).__name__)
    yield (list(value.names), _values(value))
    walk.write(">", "")


def _values(column):
    """Return what a column holds: a numpy array, or the items of an extension array with its dtype's name."""
    if type(column.dtype).__module__.partition(".")[0] == "numpy":
        return column.to_numpy()
    return (str(column.dtype), list(column.array))
