"""Where settings of the queue come from: `[tool.codeflash-parallel.queue]`, environment, command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from codeflash_parallel.config.pyproject import QUEUE_TABLE, TABLE, find_table
from codeflash_parallel.config.sources import (
    INTEGER,
    NUMBER,
    QUEUE_PREFIX,
    TEXT,
    SettingsTableFormat,
    Tables,
    ValueKind,
    argument,
    choice,
    gather,
    key_of,
)
from codeflash_parallel.queue.jobs import Overflow, Strategy
from codeflash_parallel.queue.queue_settings import QueueSettings
from codeflash_parallel.result.errors import UsageError

#: The table, as messages name it.
_TABLE = f"tool.{TABLE}.{QUEUE_TABLE}"


class QueueSettingsWithSources(NamedTuple):
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
        form = "g" if kind == NUMBER else ""
        shown = "" if isinstance(default, Mapping) or default == "" else f" Default: {default:{form}}."
        common: dict[str, Any] = {
            "dest": field.name,
            "default": argparse.SUPPRESS,
            "type": argument(_PAIRS.get(kind, kind.parse), kind.words),
            "metavar": kind.metavar,
            "help": (field.metadata["help"] + shown).replace("%", "%%"),
        }
        several: dict[str, Any] = {"action": "extend", "nargs": "+"} if kind in _PAIRS else {}
        parser.add_argument(flag_of(field.name), **common, **several)


def read_queue_settings(
    project: Path, environment: Mapping[str, str], given: Mapping[str, Any], tables: Tables | None = None
) -> QueueSettingsWithSources:
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
    return QueueSettingsWithSources(settings=settings, sources=MappingProxyType(sources))


def _ours(tables: Tables) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    for path, table in tables:
        ours = table.get(QUEUE_TABLE, {})
        if not isinstance(ours, dict):
            raise UsageError("BAD_CONFIG", f"{path}: {_TABLE} must be a table.")
        yield path, ours


def _pair(text: str, number: Callable[[str], float]) -> tuple[str, float]:
    name, separator, figure = text.rpartition("=")
    if not (name and separator):
        raise ValueError(text)
    return name, number(figure)


def _numbers(words: str, of: ValueKind) -> ValueKind:
    """Return the kind of settings that are names with numbers of a kind."""

    def parse(text: str) -> dict[str, float]:
        import shlex

        return dict(_pair(word, of.parse) for word in shlex.split(text))

    def is_good(value: Any) -> bool:
        return isinstance(value, dict) and all(map(of.is_good, value.values()))

    metavar = f"NAME={of.metavar}"
    return ValueKind(f"{words}, {metavar}", metavar, parse, is_good, dict)


NUMBERS = _numbers("names and numbers", NUMBER)
INTEGERS = _numbers("names and whole numbers", INTEGER)
STRATEGY = choice(Strategy)
OVERFLOW = choice(Overflow)

#: How one argument of an option is read that takes several.
_PAIRS: Mapping[ValueKind, Callable[[str], Any]] = MappingProxyType(
    {NUMBERS: partial(_pair, number=float), INTEGERS: partial(_pair, number=int)}
)

_KINDS = {
    "str": TEXT,
    "int": INTEGER,
    "float": NUMBER,
    "Strategy": STRATEGY,
    "Overflow": OVERFLOW,
    "Mapping[str, float]": NUMBERS,
    "Mapping[str, int]": INTEGERS,
}

#: The kind of every setting, from the one table.
KINDS: Mapping[str, ValueKind] = MappingProxyType(
    {f.name: _KINDS[str(f.type)] for f in fields(QueueSettings)}
)

_VOCABULARY = SettingsTableFormat(
    title=_TABLE,
    prefix=QUEUE_PREFIX,
    foreign="",
    known=(f"{QUEUE_PREFIX}DIR",),
    variable_of=variable_of,
    flag_of=flag_of,
    kinds=KINDS,
)
