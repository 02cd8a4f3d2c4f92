"""Where settings come from: `pyproject.toml`, the environment, the command line; the last one wins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from codeflash_parallel.cli.project_file import QUEUE_TABLE, TABLE, find_table
from codeflash_parallel.cli.setting_sources import (
    PREFIX,
    QUEUE_PREFIX,
    Tables,
    Vocabulary,
    gather,
    is_number,
    is_whole,
    key_of,
    making,
)
from codeflash_parallel.evalqueue.submitters import RUN_OF, SUBMITTER
from codeflash_parallel.model.settings import SETTING_NAMES, Compare, Settings
from codeflash_parallel.process.environment import QUIET_VARIABLE

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})


class Kind(StrEnum):
    """What a setting's value is; the same for all three sources."""

    #: Text.
    TEXT = "text"
    #: Whole number.
    INTEGER = "integer"
    #: Number.
    NUMBER = "number"
    #: Yes or no.
    SWITCH = "switch"
    #: List of texts.
    TEXTS = "texts"
    #: `auto` or a whole number.
    PARALLEL = "parallel"
    #: `values` or `pass-fail`.
    COMPARE = "compare"


#: In words, for messages and the reference page.
WORDS = MappingProxyType(
    {
        Kind.TEXT: "text",
        Kind.INTEGER: "a whole number",
        Kind.NUMBER: "a number",
        Kind.SWITCH: "true or false",
        Kind.TEXTS: "a list of texts",
        Kind.PARALLEL: "auto or a whole number",
        Kind.COMPARE: " or ".join(Compare),
    }
)

_KINDS = {
    "str": Kind.TEXT,
    "int": Kind.INTEGER,
    "float": Kind.NUMBER,
    "bool": Kind.SWITCH,
    "tuple[str, ...]": Kind.TEXTS,
    "Parallel": Kind.PARALLEL,
    "Compare": Kind.COMPARE,
}

#: The kind of every setting, from the one table.
KINDS: Mapping[str, Kind] = MappingProxyType({f.name: _KINDS[str(f.type)] for f in fields(Settings)})


#: What is no key with two dashes before it.
_FLAGS: Mapping[str, str] = MappingProxyType({f.name: f.metadata["flag"] for f in fields(Settings)})


class Configured(NamedTuple):
    """Settings, and for each one the place it came from, in words."""

    settings: Settings
    sources: Mapping[str, str]


def variable_of(name: str) -> str:
    """Return the environment variable of a setting."""
    return PREFIX + name.removeprefix("parallel_").upper()


def flag_of(name: str) -> str:
    """Return how a setting is spelled on the command line."""
    return _FLAGS[name] or f"--{key_of(name)}"


def read_settings(
    project: Path, environment: Mapping[str, str], given: Mapping[str, Any], tables: Tables | None = None
) -> Configured:
    """Return the settings of a run.

    Args:
        project: folder of the project; `pyproject.toml` is looked for from there up to the repository's root.
        environment: the caller's environment.
        given: settings named on the command line, by name.
        tables: what `find_table` found, for who has asked it already.

    Raises:
        UsageError: a key is unknown, a value has the wrong type or range, or the file is no TOML.
    """
    found = find_table(project) if tables is None else tables
    ours = ((path, {key: table[key] for key in table if key != QUEUE_TABLE}) for path, table in found)
    settings, sources = gather(_VOCABULARY, ours, environment, given, Settings)
    return Configured(settings=settings, sources=MappingProxyType(sources))


def parse_value(name: str, text: str) -> Any:
    """Return a setting's value from text: a variable, or an argument of the command line.

    Raises:
        ValueError: it is not of the setting's kind.
    """
    return _PARSERS[KINDS[name]](text)


def _switch(text: str) -> bool:
    if text.lower() not in _TRUE | _FALSE:
        raise ValueError(text)
    return text.lower() in _TRUE


def _parallel(text: str) -> int | str:
    return text if text == "auto" else int(text)


def _texts(text: str) -> tuple[str, ...]:
    import shlex

    return tuple(shlex.split(text))


_PARSERS: Mapping[Kind, Callable[[str], Any]] = MappingProxyType(
    {
        Kind.TEXT: str,
        Kind.INTEGER: int,
        Kind.NUMBER: float,
        Kind.SWITCH: _switch,
        Kind.TEXTS: _texts,
        Kind.PARALLEL: _parallel,
        Kind.COMPARE: Compare,
    }
)


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


#: Whether a value of a TOML file is of a kind.
_CHECKS: Mapping[Kind, Callable[[Any], bool]] = MappingProxyType(
    {
        Kind.TEXT: lambda value: isinstance(value, str),
        Kind.INTEGER: is_whole,
        Kind.NUMBER: is_number,
        Kind.SWITCH: lambda value: isinstance(value, bool),
        Kind.TEXTS: _is_list_of_texts,
        Kind.PARALLEL: lambda value: is_whole(value) or value == "auto",
        Kind.COMPARE: lambda value: value in list(Compare),
    }
)


_VOCABULARY = Vocabulary(
    title=f"tool.{TABLE}",
    names=SETTING_NAMES,
    prefix=PREFIX,
    foreign=QUEUE_PREFIX,
    known=(SUBMITTER, RUN_OF, QUIET_VARIABLE),
    variable_of=variable_of,
    flag_of=flag_of,
    words_of=lambda name: WORDS[KINDS[name]],
    parse=parse_value,
    is_good=lambda name, value: _CHECKS[KINDS[name]](value),
    made=making(KINDS, {Kind.TEXTS: tuple, Kind.COMPARE: Compare}),
)
