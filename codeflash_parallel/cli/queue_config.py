"""Where settings of the queue come from: `[tool.codeflash-parallel.queue]`, environment, command line."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any

from codeflash_parallel.cli.config import QUEUE_PREFIX, key_of, refuse_misspelled
from codeflash_parallel.cli.project_file import QUEUE_TABLE, TABLE, find_table
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


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueConfigured:
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
    project: Path, environment: Mapping[str, str], given: Mapping[str, Any]
) -> QueueConfigured:
    """Return the settings of the queue.

    Args:
        project: folder of the project; `pyproject.toml` is looked for from there up to the repository's root.
        environment: the caller's environment.
        given: settings named on the command line, by name.

    Raises:
        UsageError: a key is unknown, a value has the wrong type or range, or the file is no TOML.
    """
    values: dict[str, Any] = {}
    sources = dict.fromkeys(QUEUE_SETTING_NAMES, "default")
    for source, found in (*_from_file(project), *_from_environment(environment), *_from_command_line(given)):
        values |= found
        sources |= dict.fromkeys(found, source)
    return QueueConfigured(settings=_checked(values, sources), sources=MappingProxyType(sources))


def _checked(values: Mapping[str, Any], sources: Mapping[str, str]) -> QueueSettings:
    try:
        return QueueSettings(**values)
    except UsageError as error:
        culprit = next((name for name in values if error.message.split(" ")[0] == name), None)
        hint = f"It comes from: {sources[culprit]}." if culprit else error.hint
        raise UsageError(error.code, error.message, hint) from error


def _from_file(project: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, table in find_table(project):
        ours = table.get(QUEUE_TABLE, {})
        if not isinstance(ours, dict):
            raise UsageError("BAD_CONFIG", f"{path}: {_TABLE} must be a table.")
        yield str(path), _named(ours, path)


def _named(table: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return the values of the table by the settings' names; dashes and underscores are the same."""
    values: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in KINDS:
            raise UsageError("UNKNOWN_SETTING", f"{path}: unknown key {key!r} in [{_TABLE}].", _near(key))
        if name in values:
            raise UsageError("BAD_SETTING", f"{path}: {key_of(name)} is given twice.")
        values[name] = _typed(name, value, path)
    return values


def _near(key: str) -> str:
    import difflib

    known = [key_of(name) for name in QUEUE_SETTING_NAMES]
    close = difflib.get_close_matches(key.replace("_", "-"), known, n=1)
    return f"Did you mean {close[0]!r}?" if close else "See docs/reference/commands.md for the settings."


def _typed(name: str, value: Any, path: Path) -> Any:
    kind = KINDS[name]
    if not _CHECKS[kind](value):
        raise UsageError("BAD_SETTING", f"{path}: {key_of(name)} must be {WORDS[kind]}, not {value!r}.")
    return _PARSERS[kind](value) if kind in {Kind.STRATEGY, Kind.OVERFLOW} else value


def _from_environment(environment: Mapping[str, str]) -> Iterator[tuple[str, dict[str, Any]]]:
    variables = {variable_of(name): name for name in QUEUE_SETTING_NAMES}
    for variable in sorted(key for key in environment if key.startswith(QUEUE_PREFIX)):
        if variable in variables:
            name, text = variables[variable], environment[variable]
            yield f"environment, {variable}", {name: _parsed(name, variable, text)}
        else:
            refuse_misspelled(variable, [*variables, f"{QUEUE_PREFIX}DIR"])


def _parsed(name: str, variable: str, text: str) -> Any:
    try:
        return _PARSERS[KINDS[name]](text)
    except ValueError as error:
        raise UsageError("BAD_SETTING", f"{variable} must be {WORDS[KINDS[name]]}, not {text!r}.") from error


def _from_command_line(given: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name in QUEUE_SETTING_NAMES:
        if name in given:
            value = given[name]
            yield f"command line, {flag_of(name)}", {name: dict(value) if KINDS[name] in _PAIRS else value}


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
    return dict(map(_number_pair, shlex.split(text)))


def _whole_numbers(text: str) -> dict[str, int]:
    return dict(map(_whole_pair, shlex.split(text)))


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


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return _is_whole(value) or isinstance(value, float)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _has(of: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(map(of, value.values()))


#: Whether a value of a TOML file is of a kind.
_CHECKS: Mapping[Kind, Callable[[Any], bool]] = MappingProxyType(
    {
        Kind.TEXT: _is_text,
        Kind.INTEGER: _is_whole,
        Kind.NUMBER: _is_number,
        Kind.STRATEGY: lambda value: value in list(Strategy),
        Kind.OVERFLOW: lambda value: value in list(Overflow),
        Kind.NUMBERS: _has(_is_number),
        Kind.INTEGERS: _has(_is_whole),
    }
)
