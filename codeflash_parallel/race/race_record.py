"""What a run found out and measured, as JSON and back again without loss. Pure.

Values are written by the types of their fields: a dataclass as an object, rounds and blocks as tables
(columns and rows), because a race has thousands of blocks. Numbers come back as exactly what they were
(Python writes a float as the shortest text that reads back the same), so that a run that is resumed comes to
the verdict that it would have come to. What follows from the rounds is not written but computed again. A
field that came with a later version of this program is read as its default.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

from codeflash_parallel.race.measurement import Block, Round
from codeflash_parallel.race.plan import NULL, RacePlan, RaceStage
from codeflash_parallel.race.race_result import Raced
from codeflash_parallel.race.statistics.log_ratios import track
from codeflash_parallel.result.codec import expect, made

#: Key of an object that says which member of a union it is.
_TYPE = "type"


@cache
def _hints(kind: type) -> dict[str, Any]:
    """Return the types of a dataclass's recorded fields, by name."""
    hints = get_type_hints(kind)
    return {f.name: hints[f.name] for f in fields(kind) if f.name not in _COMPUTED.get(kind, ())}


#: Tuples of these are written as tables.
_TABLES = (Round, Block)

#: Fields that follow from the others and are not recorded.
_COMPUTED: Mapping[type, Sequence[str]] = {Raced: ("tracks",)}


def written(kind: Any, value: Any) -> Any:
    """Return a value of a type, or of a union of dataclasses, as what the `json` module takes."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in {Union, UnionType}:
        return None if value is None else _encode_member(arguments, value)
    if is_dataclass(kind):
        return {
            name: written(hint, getattr(value, name)) for name, hint in _hints(cast("type", kind)).items()
        }
    if origin is tuple and arguments[0] in _TABLES:
        hints = _hints(cast("type", arguments[0]))
        rows = [[written(hint, getattr(row, name)) for name, hint in hints.items()] for row in value]
        return {"columns": list(hints), "rows": rows}
    if origin is tuple:
        return [written(item, v) for item, v in zip(_items(arguments, len(value)), value, strict=True)]
    if origin is Mapping:
        return {name: written(arguments[1], v) for name, v in value.items()}
    return b64encode(value).decode("ascii") if kind is bytes else value


def _encode_member(members: Sequence[Any], value: Any) -> Any:
    """Encode a value of a union: of dataclasses, which are named, or of one type and None."""
    known = [member for member in members if member is not NoneType]
    if len(known) == 1:
        return written(known[0], value)
    return {_TYPE: type(value).__name__, **written(type(value), value)}


def _items(arguments: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    """Return the types of a tuple's items."""
    return arguments[:1] * count if arguments[1:] == (Ellipsis,) else arguments


def restored(kind: Any, data: Any) -> Any:
    """Return the value of a type, or of a union of dataclasses, that `written` was given.

    Raises:
        ValueError: it is of another type; one clause about what is wrong.
    """
    kind = getattr(kind, "__supertype__", kind)  # a `NewType` is what it is made of
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in {Union, UnionType}:
        return None if data is None and NoneType in arguments else _decode_member(arguments, data)
    if is_dataclass(kind):
        return _made(cast("type", kind), expect(data, dict))
    if origin is tuple and arguments[0] in _TABLES:
        columns = expect(expect(data, dict).get("columns"), list)
        rows = expect(data.get("rows"), list)
        return tuple(_made(cast("type", arguments[0]), dict(zip(columns, row, strict=True))) for row in rows)
    if origin is tuple:
        items = _items(arguments, len(expect(data, list)))
        return tuple(restored(item, value) for item, value in zip(items, data, strict=True))
    if origin is Mapping:
        return {name: restored(arguments[1], value) for name, value in expect(data, dict).items()}
    return _decode_plain(kind, data)


def _decode_plain(kind: Any, data: Any) -> Any:
    if kind is Any:
        return data
    if kind is bytes:
        return b64decode(expect(data, str))
    return kind(expect(data, str)) if issubclass(kind, StrEnum) else expect(data, kind)


def _decode_member(members: Sequence[Any], data: Any) -> Any:
    known = {member.__name__: member for member in members if member is not NoneType}
    if len(known) == 1:
        return restored(next(iter(known.values())), data)
    name = expect(data, dict).get(_TYPE)
    if name not in known:
        raise ValueError(f"{name!r} is none of {', '.join(known)}")
    return restored(known[name], {key: value for key, value in data.items() if key != _TYPE})


def _made(kind: type, data: Mapping[str, Any]) -> Any:
    """Make a dataclass from its fields.

    Raises:
        ValueError: a field is missing, unknown, or of another type.
    """
    return made(kind, data, _hints(kind), restored, _raced if kind is Raced else None)


def _raced(*, plan: RacePlan, candidates: tuple[str, ...], rounds: tuple[Round, ...], **rest: Any) -> Raced:
    """Make a race from its recorded fields; figures are computed from the rounds again."""
    null = (NULL,) if plan.stage is RaceStage.CONFIRMATION else ()
    tracks = {arm: track(rounds, arm, plan) for arm in (*candidates, *null)}
    return Raced(plan=plan, candidates=candidates, rounds=rounds, tracks=tracks, **rest)
