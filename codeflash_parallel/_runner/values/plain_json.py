"""Values as plain JSON: told by the process that made them, rebuilt in another one without a pickle.

Scalars stand for themselves; all else is a list that begins with its kind. Kinds are builtins, numpy's arrays
and scalars, decimals, fractions, enumerations, named tuples and dataclasses. Of the latter three only the
class is looked up, among the modules that the process has imported; none of their code runs but an
enumeration's lookup by value.
"""

import base64
import dataclasses
import enum
import itertools
import sys
from collections import Counter, OrderedDict, deque
from decimal import Decimal
from fractions import Fraction

from .type_handlers import Spent
from .value_text import type_name

#: Of one value: parts that are told at most, and how deep they lie.
MOST_PARTS, MOST_DEEP = 1_000_000, 200
#: Integers from here on are written in hexadecimal: the interpreter limits the length of decimal ones.
_LARGE = 1 << 64

_ROWS = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset, "deque": deque}
_BYTES = {"bytes": bytes, "bytearray": bytearray}
_MAPPINGS = {"dict": dict, "OrderedDict": OrderedDict, "Counter": Counter}
_PARTS = {
    complex: lambda value: (value.real, value.imag),
    range: lambda value: (value.start, value.stop, value.step),
    Decimal: lambda value: (str(value),),
    Fraction: lambda value: (hex(value.numerator), hex(value.denominator)),
}
_KINDS = {kind: name for name, kind in (*_ROWS.items(), *_BYTES.items(), *_MAPPINGS.items())}


class NoPlainForm(Exception):  # noqa: N818 - a fact about a value
    """A value, or a part of one, has no plain form; the message is the name of its type, or says why."""


def told(value):
    """Return a value as what JSON can hold.

    Raises:
        NoPlainForm: it holds something of another type, or too much.
    """
    return _told(value, 0, itertools.count())


def _told(value, depth, count):
    kind = type(value)
    if next(count) >= MOST_PARTS or depth > MOST_DEEP:
        raise NoPlainForm("a value of more than %d parts, or nested deeper than %d" % (MOST_PARTS, MOST_DEEP))
    if kind in (str, float, bool, type(None)):
        return value
    if kind is int:
        return value if -_LARGE < value < _LARGE else ["int", hex(value)]

    return _compound(kind, value, lambda parts: [_told(part, depth + 1, count) for part in parts])


def _compound(kind, value, told_all):
    name = _KINDS.get(kind)
    if name in _ROWS:
        return [name, *told_all(value)]
    if name in _BYTES:
        return [name, _text(bytes(value))]
    if name in _MAPPINGS:
        return [name, told_all(value), told_all(value.values())]
    if kind in _PARTS:
        return [kind.__name__, *_PARTS[kind](value)]
    of_class = _parts_of_class(kind, value)
    if of_class is None:
        return _numpy_told(kind, value)
    return [of_class[0], *_name_of(kind), *told_all(of_class[1])]


def _parts_of_class(kind, value):
    """Return the word for a class of the project's own and the parts of its object; None of all others."""
    if kind is Spent:  # an iterator, of which the caller has read what there was
        raise NoPlainForm(value.name)
    if enum.Enum in kind.__mro__:
        return "enum", [value._value_]
    if tuple in kind.__mro__ and _fields(kind) is not None:
        return "namedtuple", tuple(value)
    if not dataclasses.is_dataclass(kind):
        return None
    names = [field.name for field in dataclasses.fields(kind)]
    if not set(names).issuperset(getattr(value, "__dict__", ())):
        raise NoPlainForm("%s with more attributes than its fields" % type_name(kind))
    return "dataclass", [getattr(value, name) for name in names]


def _text(data):
    return base64.b64encode(data).decode("ascii")


def _name_of(cls):
    if _found(cls.__module__, cls.__qualname__) is not cls:
        raise NoPlainForm(type_name(cls))
    return cls.__module__, cls.__qualname__


def _found(module, qualname):
    found = sys.modules.get(module)
    for part in qualname.split("."):
        found = vars(found).get(part) if hasattr(found, "__dict__") else None
    return found


def _fields(cls):
    names = getattr(cls, "_fields", None)
    return names if isinstance(names, tuple) else None


def _is_plain(dtype):
    return not dtype.hasobject and dtype.names is None and dtype.kind in "biufcSUmM"


def _numpy_told(kind, value):
    numpy = sys.modules.get("numpy")
    if numpy is None or (kind is not numpy.ndarray and numpy.generic not in kind.__mro__):
        raise NoPlainForm(type_name(kind))
    if not _is_plain(value.dtype):
        raise NoPlainForm("%s of %s" % (type_name(kind), value.dtype))
    if kind is numpy.ndarray:
        return ["ndarray", value.dtype.str, list(value.shape), _text(value.tobytes())]
    return ["generic", value.dtype.str, _text(value.tobytes())]


def rebuilt(data):
    """Return the value that was told.

    Raises:
        NoPlainForm: the data is not what `told` returns, or names a class that this process does not know.
    """
    try:
        return _rebuilt(data)
    except NoPlainForm:
        raise
    except Exception as error:
        raise NoPlainForm("what cannot be rebuilt (%s: %s)" % (type(error).__name__, error)) from None


def _rebuilt(data):
    if not isinstance(data, list):
        return data
    kind, *rest = data
    if kind in _ROWS:
        return _ROWS[kind](map(_rebuilt, rest))
    if kind in _BYTES:
        return _BYTES[kind](base64.b64decode(rest[0]))
    if kind in _MAPPINGS:
        return _MAPPINGS[kind](dict(zip(*(map(_rebuilt, row) for row in rest))))
    if kind in _CLASSES:
        module, qualname, *parts = rest
        return _of_class(kind, _found(module, qualname), "%s.%s" % (module, qualname), parts)
    return _SPECIAL[kind](*rest)


def _of_class(kind, cls, name, parts):
    if not (isinstance(cls, type) and _CLASSES[kind](cls)):
        raise NoPlainForm(name)
    values = [_rebuilt(part) for part in parts]
    if kind == "enum":
        return cls(*values)
    if kind == "namedtuple":
        return tuple.__new__(cls, values)
    made = object.__new__(cls)
    for field, value in zip(dataclasses.fields(cls), values):
        object.__setattr__(made, field.name, value)
    return made


#: What a class must be for an instance of it to be made.
_CLASSES = {
    "enum": lambda cls: enum.Enum in cls.__mro__,
    "namedtuple": lambda cls: tuple in cls.__mro__ and _fields(cls) is not None,
    "dataclass": dataclasses.is_dataclass,
}


def _array(dtype, shape, text):
    import numpy as np

    if not _is_plain(np.dtype(dtype)):
        raise NoPlainForm("an array of %s" % dtype)
    return np.frombuffer(base64.b64decode(text), dtype).reshape(shape).copy()


_SPECIAL = {
    "int": lambda text: int(text, 16),
    "complex": complex,
    "range": range,
    "Decimal": Decimal,
    "Fraction": lambda above, below: Fraction(int(above, 16), int(below, 16)),
    "ndarray": _array,
    "generic": lambda dtype, text: _array(dtype, [1], text)[0],
}
