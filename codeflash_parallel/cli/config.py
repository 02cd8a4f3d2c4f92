"""Where settings come from: `pyproject.toml`, the environment, the command line; the last one wins."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any

from codeflash_parallel.cli.project_file import QUEUE_TABLE, TABLE, find_table
from codeflash_parallel.model.errors import UsageError
from codeflash_parallel.model.settings import SETTING_NAMES, Compare, Settings

#: Every environment variable of ours begins with it.
PREFIX = "CODEFLASH_PARALLEL_"

#: Every one of a setting of the queue does.
QUEUE_PREFIX = f"{PREFIX}QUEUE_"

#: Who hands jobs in, and for which run, where no option says so.
SUBMITTER, RUN_OF = f"{PREFIX}SUBMITTER", f"{PREFIX}RUN_OF"

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


@dataclass(frozen=True, kw_only=True, slots=True)
class Configured:
    """Settings, and for each one the place it came from, in words."""

    settings: Settings
    sources: Mapping[str, str]


def key_of(name: str) -> str:
    """Return how a setting is spelled in `pyproject.toml`."""
    return name.replace("_", "-")


def variable_of(name: str) -> str:
    """Return the environment variable of a setting."""
    return PREFIX + name.removeprefix("parallel_").upper()


def flag_of(name: str) -> str:
    """Return how a setting is spelled on the command line."""
    flag = next(f.metadata["flag"] for f in fields(Settings) if f.name == name)
    return flag or f"--{key_of(name)}"


def read_settings(project: Path, environment: Mapping[str, str], given: Mapping[str, Any]) -> Configured:
    """Return the settings of a run.

    Args:
        project: folder of the project; `pyproject.toml` is looked for from there up to the repository's root.
        environment: the caller's environment.
        given: settings named on the command line, by name.

    Raises:
        UsageError: a key is unknown, a value has the wrong type or range, or the file is no TOML.
    """
    values: dict[str, Any] = {}
    sources = dict.fromkeys(SETTING_NAMES, "default")
    for source, found in (
        *_from_file(project),
        *_from_environment(environment),
        *_from_command_line(given),
    ):
        values |= found
        sources |= dict.fromkeys(found, source)
    return Configured(settings=_checked(values, sources), sources=MappingProxyType(sources))


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


def _checked(values: Mapping[str, Any], sources: Mapping[str, str]) -> Settings:
    try:
        return Settings(**values)
    except UsageError as error:
        culprit = next((name for name in values if error.message.split(" ")[0] == name), None)
        hint = f"It comes from: {sources[culprit]}." if culprit else ""
        raise UsageError(error.code, error.message, hint) from error


def _from_file(project: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, table in find_table(project):
        yield str(path), _named({key: value for key, value in table.items() if key != QUEUE_TABLE}, path)


def _named(table: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return the values of a table by the settings' names; dashes and underscores are the same."""
    values: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in KINDS:
            raise UsageError("UNKNOWN_SETTING", f"{path}: unknown key {key!r} in [tool.{TABLE}].", _near(key))
        if name in values:
            raise UsageError("BAD_SETTING", f"{path}: {key_of(name)} is given twice.")
        values[name] = _typed(name, value, path)
    return values


def _near(key: str) -> str:
    import difflib

    known = [key_of(name) for name in SETTING_NAMES]
    close = difflib.get_close_matches(key.replace("_", "-"), known, n=1)
    return f"Did you mean {close[0]!r}?" if close else "See docs/reference/commands.md for the settings."


def _typed(name: str, value: Any, path: Path) -> Any:
    """Return a value of a TOML file as the setting has it; a whole number is a number, too."""
    kind = KINDS[name]
    whole = isinstance(value, int) and not isinstance(value, bool)
    good = {
        Kind.TEXT: isinstance(value, str),
        Kind.INTEGER: whole,
        Kind.NUMBER: whole or isinstance(value, float),
        Kind.SWITCH: isinstance(value, bool),
        Kind.TEXTS: isinstance(value, list) and all(isinstance(item, str) for item in value),
        Kind.PARALLEL: whole or value == "auto",
        Kind.COMPARE: value in list(Compare),
    }
    if not good[kind]:
        raise UsageError("BAD_SETTING", f"{path}: {key_of(name)} must be {WORDS[kind]}, not {value!r}.")
    return tuple(value) if kind == Kind.TEXTS else Compare(value) if kind == Kind.COMPARE else value


def _from_command_line(given: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name in SETTING_NAMES:
        if name in given:
            value = given[name]
            yield f"command line, {flag_of(name)}", {name: tuple(value) if isinstance(value, list) else value}


def _from_environment(environment: Mapping[str, str]) -> Iterator[tuple[str, dict[str, Any]]]:
    variables = {variable_of(name): name for name in SETTING_NAMES}
    for variable in sorted(key for key in environment if key.startswith(PREFIX)):
        if variable in variables:
            name = variables[variable]
            yield f"environment, {variable}", {name: _parsed(name, variable, environment[variable])}
        elif not variable.startswith(QUEUE_PREFIX):
            refuse_misspelled(variable, [*variables, SUBMITTER, RUN_OF])


def _parsed(name: str, variable: str, text: str) -> Any:
    try:
        return parse_value(name, text)
    except ValueError as error:
        raise UsageError("BAD_SETTING", f"{variable} must be {WORDS[KINDS[name]]}, not {text!r}.") from error


def refuse_misspelled(variable: str, known: Sequence[str]) -> None:
    """Refuse a variable that is nearly one of ours; others may belong to our tests or to a run around us.

    Raises:
        UsageError: `UNKNOWN_SETTING`.
    """
    if variable in known:
        return
    import difflib

    suffixes = {name.removeprefix(PREFIX): name for name in known}
    close = difflib.get_close_matches(variable.removeprefix(PREFIX), suffixes, n=1, cutoff=0.8)
    if close:
        raise UsageError(
            "UNKNOWN_SETTING",
            f"Unknown environment variable {variable}.",
            f"Did you mean {suffixes[close[0]]}?",
        )
