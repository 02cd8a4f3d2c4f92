"""What races measured, as JSON and back again without loss. Pure.

Values are written by the types of their fields: a dataclass as an object, rounds and blocks as tables
(columns and rows), because a race has thousands of blocks. Numbers come back as exactly what they were
(Python writes a float as the shortest text that reads back the same), so that a run that is resumed comes to
the verdict that it would have come to. What follows from the rounds is not written but computed again. A
field that came with a later version of this program is read as its default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

from codeflash_parallel.race.measurement import Block, Round
from codeflash_parallel.race.plan import NULL, RacePlan, RaceStage
from codeflash_parallel.race.race_result import Raced, RaceOutcome
from codeflash_parallel.race.statistics.log_ratios import track
from codeflash_parallel.result.codec import expect, made

#: Version of the records; records of another one are not read.
SCHEMA = 2

#: Key of an object that says which member of a union it is.
_TYPE = "type"


@dataclass(frozen=True, kw_only=True, slots=True)
class RunRecord:
    """What all races of a run have in common; the first record.

    Attributes:
        seed: of orders, cores, layouts and hash seeds.
        version: of the program that measured.
    """

    run_id: str
    seed: int
    version: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RaceRecord:
    """A race or a confirmation."""

    stage: RaceStage
    outcome: RaceOutcome


Record = RunRecord | RaceRecord


def to_json(record: Record) -> dict[str, Any]:
    """Return a record as what the `json` module takes."""
    return {"schema": SCHEMA, **_encode(Record, record)}


def restored(kind: Any, data: Any) -> Any:
    """Return the value of a type, or of a union of dataclasses, that `written` was given.

    Raises:
        ValueError: it is of another type; one clause about what is wrong.
    """
    return _decode(kind, data)


def written(kind: Any, value: Any) -> Any:
    """Return a value of a type, or of a union of dataclasses, as what the `json` module takes."""
    return _encode(kind, value)


def from_json(data: Any) -> Record:
    """Return what `to_json` was given.

    Raises:
        ValueError: not a record, or one of another schema; one clause about what is wrong.
    """
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        version = data.get("schema") if isinstance(data, dict) else None
        raise ValueError(f"its schema version is {version!r}, this program reads {SCHEMA}")
    return cast("Record", _decode(Record, {name: v for name, v in data.items() if name != "schema"}))


@cache
def _hints(kind: type) -> dict[str, Any]:
    """Return the types of a dataclass's recorded fields, by name."""
    hints = get_type_hints(kind)
    return {f.name: hints[f.name] for f in fields(kind) if f.name not in _COMPUTED.get(kind, ())}


#: Tuples of these are written as tables.
_TABLES = (Round, Block)

#: Fields that follow from the others and are not recorded.
_COMPUTED: Mapping[type, Sequence[str]] = {Raced: ("tracks",)}


def _encode(kind: Any, value: Any) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in {Union, UnionType}:
        return None if value is None else _encode_member(arguments, value)
    if is_dataclass(kind):
        return {
            name: _encode(hint, getattr(value, name)) for name, hint in _hints(cast("type", kind)).items()
        }
    if origin is tuple and arguments[0] in _TABLES:
        hints = _hints(cast("type", arguments[0]))
        rows = [[_encode(hint, getattr(row, name)) for name, hint in hints.items()] for row in value]
        return {"columns": list(hints), "rows": rows}
    if origin is tuple:
        return [_encode(item, v) for item, v in zip(_items(arguments, len(value)), value, strict=True)]
    if origin is Mapping:
        return {name: _encode(arguments[1], v) for name, v in value.items()}
    return value


def _encode_member(members: Sequence[Any], value: Any) -> Any:
    """Encode a value of a union: of dataclasses, which are named, or of one type and None."""
    known = [member for member in members if member is not NoneType]
    if len(known) == 1:
        return _encode(known[0], value)
    return {_TYPE: type(value).__name__, **_encode(type(value), value)}


def _items(arguments: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    """Return the types of a tuple's items."""
    return arguments[:1] * count if arguments[1:] == (Ellipsis,) else arguments


def _decode(kind: Any, data: Any) -> Any:
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
        return tuple(_decode(item, value) for item, value in zip(items, data, strict=True))
    if origin is Mapping:
        return {name: _decode(arguments[1], value) for name, value in expect(data, dict).items()}
    return _decode_plain(kind, data)


def _decode_plain(kind: Any, data: Any) -> Any:
    if kind is Any:
        return data
    return kind(expect(data, str)) if issubclass(kind, StrEnum) else expect(data, kind)


def _decode_member(members: Sequence[Any], data: Any) -> Any:
    known = {member.__name__: member for member in members if member is not NoneType}
    if len(known) == 1:
        return _decode(next(iter(known.values())), data)
    name = expect(data, dict).get(_TYPE)
    if name not in known:
        raise ValueError(f"{name!r} is none of {', '.join(known)}")
    return _decode(known[name], {key: value for key, value in data.items() if key != _TYPE})


def _made(kind: type, data: Mapping[str, Any]) -> Any:
    """Make a dataclass from its fields.

    Raises:
        ValueError: a field is missing, unknown, or of another type.
    """
    return made(kind, data, _hints(kind), _decode, _raced if kind is Raced else None)


def _raced(*, plan: RacePlan, candidates: tuple[str, ...], rounds: tuple[Round, ...], **rest: Any) -> Raced:
    """Make a race from its recorded fields; figures are computed from the rounds again."""
    null = (NULL,) if plan.stage is RaceStage.CONFIRMATION else ()
    tracks = {arm: track(rounds, arm, plan) for arm in (*candidates, *null)}
    return Raced(plan=plan, candidates=candidates, rounds=rounds, tracks=tracks, **rest)
