"""Frozen values as what the `json` module takes, and back again by the types of their fields. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints


def to_plain(value: Any) -> Any:
    """Return a value made of dataclasses, named tuples, tuples, sets, mappings and scalars as JSON has it."""
    match value:
        case _ if _is_record(type(value)):
            return {name: to_plain(getattr(value, name)) for name in _names(type(value))}
        case StrEnum():
            return value.value
        case tuple() | list():
            return [to_plain(item) for item in value]
        case frozenset() | set():
            return sorted(to_plain(item) for item in value)
        case Mapping():
            return {str(name): to_plain(item) for name, item in value.items()}
        case _:
            return value


def from_plain(kind: Any, data: Any) -> Any:
    """Return the value of a type that `to_plain` was given.

    Raises:
        ValueError: it is of another type, or a field is missing or unknown; one clause about what is wrong.
    """
    kind = getattr(kind, "__supertype__", kind)  # a `NewType` is what it is made of
    if kind is Any:
        return data
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in {Union, UnionType}:
        return _optional(arguments, data)
    if origin in {tuple, frozenset}:
        return _items(origin, arguments, expect(data, list))
    if origin in {Mapping, dict}:
        return {_named(arguments[0], name): from_plain(arguments[1], item) for name, item in _pairs(data)}
    if _is_record(kind):
        return made(cast("type", kind), expect(data, dict), _hints(cast("type", kind)), from_plain)
    return kind(expect(data, str)) if issubclass(kind, StrEnum) else expect(data, kind)


def _optional(arguments: tuple[Any, ...], data: Any) -> Any:
    if data is None and NoneType in arguments:
        return None
    (member,) = (argument for argument in arguments if argument is not NoneType)
    return from_plain(member, data)


def _items(origin: Any, arguments: tuple[Any, ...], data: list[Any]) -> Any:
    if origin is frozenset or arguments[1:] == (Ellipsis,):
        return origin(from_plain(arguments[0], item) for item in data)
    if len(arguments) != len(data):
        raise ValueError(f"{len(arguments)} items were expected, not {len(data)}")
    return tuple(from_plain(kind, item) for kind, item in zip(arguments, data, strict=True))


def _named(kind: Any, name: str) -> Any:
    return kind(name) if isinstance(kind, type) and issubclass(kind, (StrEnum, int)) else name


def _pairs(data: Any) -> Any:
    return expect(data, dict).items()


@cache
def _hints(kind: type) -> dict[str, Any]:
    return {name: hint for name, hint in get_type_hints(kind).items() if name in _names(kind)}


def _is_record(kind: Any) -> bool:
    """Say whether a type has fields with names: a dataclass, or a named tuple."""
    return is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))


def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else kind._fields


def made(
    kind: type,
    data: Mapping[str, Any],
    hints: Mapping[str, Any],
    read: Callable[[Any, Any], Any],
    make: Callable[..., Any] | None = None,
) -> Any:
    """Make a record from its fields.

    Args:
        hints: the types of its fields, by name.
        read: makes the value of a field of its type and what JSON has.
        make: takes the values by name; the type itself by default.

    Raises:
        ValueError: a field is missing, unknown, or of another type.
    """
    unknown = data.keys() - hints.keys()
    if unknown:
        raise ValueError(f"{kind.__name__} has no {min(unknown)}")
    values = {name: read(hints[name], value) for name, value in data.items()}
    try:
        return (make or kind)(**values)
    except TypeError as error:
        raise ValueError(f"{kind.__name__} is incomplete: {error}") from error


def expect(data: Any, kind: type) -> Any:
    """Return what JSON has if it is of a type; a bool is no number.

    Raises:
        ValueError: it is of another one.
    """
    wanted = (int, float) if kind is float else kind
    if not isinstance(data, wanted) or (isinstance(data, bool) and kind is not bool):
        raise ValueError(f"{kind.__name__} was expected, not {str(data)[:40]!r}")
    return data
