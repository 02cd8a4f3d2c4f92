"""Where settings of the queue come from: `[tool.codeflash-parallel.queue]`, environment, command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from codeflash_parallel.cli.project_file import QUEUE_TABLE, TABLE, find_table
from codeflash_parallel.cli.setting_sources import (
    QUEUE_PREFIX,
    Tables,
    Vocabulary,
    gather,
    is_number,
    is_whole,
    key_of,
    making,
)
from codeflash_parallel.model.errors import UsageError
from codeflash_parallel.model.jobs import Overflow, Strategy
from codeflash_parallel.model.queue_settings import QUEUE_SETTING_NAMES, QueueSettings

#: The table, as messages name it.
_TABLE = f"tool.{TABLE}.{QUEUE_TABLE}"


class Kind(StrEnum):
    """What the value of a setting is; the same for all three sources."""

    #: Text.
    TEXT = "str"
    #: Whole number.
    INTEGER = "int"
    #: Number.
    NUMBER = "float"
    #: Who is next.
    STRATEGY = "Strategy"
    #: What a full queue does.
    OVERFLOW = "Overflow"
    #: Names and numbers.
    NUMBERS = "Mapping[str, float]"
    #: Names and whole numbers.
    INTEGERS = "Mapping[str, int]"


#: The kind of every setting, from the one table.
KINDS: Mapping[str, Kind] = MappingProxyType({f.name: Kind(str(f.type)) for f in fields(QueueSettings)})

#: In words, for messages and the reference page.
WORDS = MappingProxyType(
    {
        Kind.TEXT: "text",
        Kind.INTEGER: "a whole number",
        Kind.NUMBER: "a number",
        Kind.STRATEGY: " or ".join(Strategy),
        Kind.OVERFLOW: " or ".join(Overflow),
        Kind.NUMBERS: "names and numbers, NAME=X",
        Kind.INTEGERS: "names and whole numbers, NAME=N",
    }
)

_METAVARS = MappingProxyType(
    {
        Kind.TEXT: "TEXT",
        Kind.INTEGER: "N",
        Kind.NUMBER: "X",
        Kind.STRATEGY: "|".join(Strategy),
        Kind.OVERFLOW: "|".join(Overflow),
        Kind.NUMBERS: "NAME=X",
        Kind.INTEGERS: "NAME=N",
    }
)


class QueueConfigured(NamedTuple):
    """Settings of the queue, and for each one the place it came from, in words."""

    settings: QueueSettings
    sources: Mapping[str, str]


def variable_of(name: str) -> str:
    """Return the environment variable of a setting of the queue."""
    return QUEUE_PREFIX + name.upper()


def flag_of(name: str) -> str:
    """Return how a setting of the queue is spelled on the command line."""
    return f"--{key_of(name)}"


def add_queue_settings(parser: argparse._ActionsContainer) -> None:
    """Add an option for every setting; one that is not given leaves no trace in the namespace."""
    for field in fields(QueueSettings):
        kind, default = KINDS[field.name], getattr(QueueSettings(), field.name)
        shown = "" if isinstance(default, Mapping) or default == "" else f" Default: {default:{_form(kind)}}."
        common: dict[str, Any] = {
            "dest": field.name,
            "default": argparse.SUPPRESS,
            "type": _argument(field.name),
            "metavar": _METAVARS[kind],
            "help": (field.metadata["help"] + shown).replace("%", "%%"),
        }
        several: dict[str, Any] = {"action": "extend", "nargs": "+"} if kind in _PAIRS else {}
        parser.add_argument(flag_of(field.name), **common, **several)


def _form(kind: Kind) -> str:
    return "g" if kind == Kind.NUMBER else ""


def _argument(name: str) -> Callable[[str], Any]:
    kind = KINDS[name]
    parse = _PAIRS.get(kind) or _PARSERS[kind]

    def read(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"must be {WORDS[kind]}, not {text!r}") from error

    return read


def read_queue_settings(
    project: Path, environment: Mapping[str, str], given: Mapping[str, Any], tables: Tables | None = None
) -> QueueConfigured:
    """Return the settings of the queue.

    Args:
        project: folder of the project; `pyproject.toml` is looked for from there up to the repository's root.
        environment: the caller's environment.
        given: settings named on the command line, by name.
        tables: what `find_table` found, for who has asked it already.

    Raises:
        UsageError: a key is unknown, a value has the wrong type or range, or the file is no TOML.
    """
    found = find_table(project) if tables is None else tables
    settings, sources = gather(_VOCABULARY, _ours(found), environment, given, QueueSettings)
    return QueueConfigured(settings=settings, sources=MappingProxyType(sources))


def _ours(tables: Tables) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    for path, table in tables:
        ours = table.get(QUEUE_TABLE, {})
        if not isinstance(ours, dict):
            raise UsageError("BAD_CONFIG", f"{path}: {_TABLE} must be a table.")
        yield path, ours


def _number_pair(text: str) -> tuple[str, float]:
    name, number = _pair(text)
    return name, float(number)


def _whole_pair(text: str) -> tuple[str, int]:
    name, number = _pair(text)
    return name, int(number)


def _pair(text: str) -> tuple[str, str]:
    name, separator, number = text.rpartition("=")
    if not (name and separator):
        raise ValueError(text)
    return name, number


def _numbers(text: str) -> dict[str, float]:
    return dict(map(_number_pair, _words(text)))


def _words(text: str) -> list[str]:
    import shlex

    return shlex.split(text)


def _whole_numbers(text: str) -> dict[str, int]:
    return dict(map(_whole_pair, _words(text)))


#: One argument of an option that takes several.
_PAIRS: Mapping[Kind, Callable[[str], Any]] = MappingProxyType(
    {Kind.NUMBERS: _number_pair, Kind.INTEGERS: _whole_pair}
)

_PARSERS: Mapping[Kind, Callable[[str], Any]] = MappingProxyType(
    {
        Kind.TEXT: str,
        Kind.INTEGER: int,
        Kind.NUMBER: float,
        Kind.STRATEGY: Strategy,
        Kind.OVERFLOW: Overflow,
        Kind.NUMBERS: _numbers,
        Kind.INTEGERS: _whole_numbers,
    }
)


def _has(of: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(map(of, value.values()))


#: Whether a value of a TOML file is of a kind.
_CHECKS: Mapping[Kind, Callable[[Any], bool]] = MappingProxyType(
    {
        Kind.TEXT: lambda value: isinstance(value, str),
        Kind.INTEGER: is_whole,
        Kind.NUMBER: is_number,
        Kind.STRATEGY: lambda value: value in list(Strategy),
        Kind.OVERFLOW: lambda value: value in list(Overflow),
        Kind.NUMBERS: _has(is_number),
        Kind.INTEGERS: _has(is_whole),
    }
)


_MAKERS: Mapping[Kind, Callable[[Any], Any]] = MappingProxyType(
    {Kind.NUMBERS: dict, Kind.INTEGERS: dict, Kind.STRATEGY: Strategy, Kind.OVERFLOW: Overflow}
)

_VOCABULARY = Vocabulary(
    title=_TABLE,
    names=QUEUE_SETTING_NAMES,
    prefix=QUEUE_PREFIX,
    foreign="",
    known=(f"{QUEUE_PREFIX}DIR",),
    variable_of=variable_of,
    flag_of=flag_of,
    words_of=lambda name: WORDS[KINDS[name]],
    parse=lambda name, text: _PARSERS[KINDS[name]](text),
    is_good=lambda name, value: _CHECKS[KINDS[name]](value),
    made=making(KINDS, _MAKERS),
)
