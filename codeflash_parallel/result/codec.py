"""Typed values as what the `json` module takes, and back again by the types of their fields. Pure.

Nothing is lost. A dataclass or named tuple is an object; fields that follow from others (`init=False`) are
not written. A member of a union of several records says its name under `type`. A mapping whose keys are
tuples is a list of pairs, bytes are base64, sets are sorted. Numbers come back as exactly what they were
(Python writes a float as the shortest text that reads back the same). A field that is absent has its default.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

#: Key of an object that says which member of a union it is.
_TYPE = "type"
#: Values that are what JSON has.
_PLAIN = frozenset({str, int, float, bool, NoneType})
_UNIONS = frozenset({Union, UnionType})
_MAPPINGS = frozenset({Mapping, dict, Counter})


def to_plain(value: Any, kind: Any = Any) -> Any:
    """Return a value as JSON has it.

    Args:
        value: made of dataclasses, named tuples, tuples, sets, mappings and scalars.
        kind: the type that it is read as, where that is more than its own: a union.
    """
    if type(value) in _PLAIN:
        return value
    kind, own = _bare(kind), cast("Any", type(value))
    if _is_record(own):
        plain = {name: to_plain(getattr(value, name), hint) for name, hint in _hints(own).items()}
        return {_TYPE: own.__name__, **plain} if get_origin(kind) in _UNIONS else plain
    return _to_plain(value, get_args(kind))


def _to_plain(value: Any, arguments: tuple[Any, ...]) -> Any:
    """Return a value that is no record.

    Args:
        arguments: of its type; empty: they are not known.
    """
    plain: Any = value
    match value:
        case StrEnum():
            plain = value.value
        case bytes():
            plain = b64encode(value).decode("ascii")
        case tuple() | list():
            kinds = _item_kinds(arguments or (Any, ...), len(value))
            plain = [to_plain(item, kind) for item, kind in zip(value, kinds, strict=True)]
        case frozenset() | set():
            plain = sorted(to_plain(item) for item in value)
        case Mapping():
            of = arguments[-1] if arguments else Any
            pairs = [(key, to_plain(item, of)) for key, item in value.items()]
            by_name = not arguments or get_origin(arguments[0]) is not tuple
            plain = {str(k): v for k, v in pairs} if by_name else [[to_plain(k), v] for k, v in pairs]
    return plain


def from_plain(kind: Any, data: Any) -> Any:
    """Return the value of a type that `to_plain` was given.

    Raises:
        ValueError: it is of another type, or a field is missing or unknown; one clause about what is wrong.
    """
    return _reader(kind)(data)


@cache
def _reader(kind: Any) -> Callable[[Any], Any]:
    """Return what reads values of a type; made once for each."""
    bare = _bare(kind)
    origin, arguments = get_origin(bare), get_args(bare)
    read: Callable[[Any], Any] = partial(expect, kind=bare)
    if bare is Any:
        read = _same
    elif origin in _UNIONS:
        read = partial(_read_member, {m.__name__: m for m in arguments if m is not NoneType})
    elif origin in {tuple, frozenset}:
        read = partial(_read_items, origin, arguments if origin is tuple else (*arguments, ...))
    elif origin in _MAPPINGS:
        made = (Counter, *arguments, int) if origin is Counter else (dict, *arguments)
        read = partial(_read_mapping, *made)
    elif _is_record(bare):
        read = partial(_read_record, bare)
    elif issubclass(bare, StrEnum | bytes):
        read = partial(_read_text, b64decode if bare is bytes else bare)
    return partial(_read_optional, read) if NoneType in get_args(kind) else read


def _same(data: Any) -> Any:
    return data


def _read_text(make: Callable[[str], Any], data: Any) -> Any:
    return make(expect(data, str))


def _read_optional(read: Callable[[Any], Any], data: Any) -> Any:
    return None if data is None else read(data)


def _read_member(members: Mapping[str, Any], data: Any) -> Any:
    name = expect(data, dict).get(_TYPE)
    if name not in members:
        raise ValueError(f"{name!r} is none of {', '.join(members)}")
    return from_plain(members[name], {key: value for key, value in data.items() if key != _TYPE})


def _read_items(make: Callable[[Any], Any], arguments: tuple[Any, ...], data: Any) -> Any:
    kinds = _item_kinds(arguments, len(expect(data, list)))
    if len(kinds) != len(data):
        raise ValueError(f"{len(kinds)} items were expected, not {len(data)}")
    return make(from_plain(kind, item) for kind, item in zip(kinds, data, strict=True))


def _read_mapping(make: Callable[[Any], Any], of_key: Any, of_value: Any, data: Any) -> Any:
    if get_origin(of_key) is tuple:
        return make({from_plain(of_key, key): from_plain(of_value, item) for key, item in expect(data, list)})
    name = of_key if isinstance(of_key, type) and issubclass(of_key, (StrEnum, int)) else str
    return make({name(key): from_plain(of_value, item) for key, item in expect(data, dict).items()})


def _read_record(kind: Any, data: Any) -> Any:
    readers = _field_readers(kind)
    unknown = expect(data, dict).keys() - readers.keys()
    if unknown:
        raise ValueError(f"{kind.__name__} has no {min(unknown)}")
    values = {name: readers[name](value) for name, value in data.items()}
    try:
        return kind(**values)
    except TypeError as error:
        raise ValueError(f"{kind.__name__} is incomplete: {error}") from error


@cache
def _field_readers(kind: Any) -> dict[str, Callable[[Any], Any]]:
    return {name: _reader(hint) for name, hint in _hints(kind).items()}


@cache
def _bare(kind: Any) -> Any:
    """Return a type without its `NewType`, and without `None` beside it."""
    kind = getattr(kind, "__supertype__", kind)
    members = [member for member in get_args(kind) if member is not NoneType]
    return _bare(members[0]) if get_origin(kind) in _UNIONS and len(members) == 1 else kind


def _item_kinds(arguments: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    """Return the types of the items of a tuple."""
    return arguments[:1] * count if arguments[1:] == (Ellipsis,) else arguments


@cache
def _is_record(kind: Any) -> bool:
    """Say whether a type has fields with names: a dataclass, or a named tuple."""
    return is_dataclass(kind) or (
        isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")
    )


@cache
def _hints(kind: Any) -> dict[str, Any]:
    """Return the types of the fields that are written, by name."""
    hints = get_type_hints(kind)
    names = [f.name for f in fields(kind) if f.init] if is_dataclass(kind) else kind._fields
    return {name: hints[name] for name in names}


def expect(data: Any, kind: type) -> Any:
    """Return what JSON has if it is of a type; a bool is no number.

    Raises:
        ValueError: it is of another one.
    """
    wanted = (int, float) if kind is float else kind
    if not isinstance(data, wanted) or (isinstance(data, bool) and kind is not bool):
        raise ValueError(f"{kind.__name__} was expected, not {str(data)[:40]!r}")
    return data
