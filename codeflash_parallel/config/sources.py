"""Where settings come from: a table of a file, the environment, the command line; the last one wins.

One reader for both tables, that of a run and that of the queue; a `SettingsTableFormat` says how one is
spelled.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from codeflash_parallel.result.errors import UsageError

#: Every environment variable of ours begins with it.
PREFIX = "CODEFLASH_PARALLEL_"

#: Every one of a setting of the queue does.
QUEUE_PREFIX = f"{PREFIX}QUEUE_"

#: A file, and a table in it.
Tables = Iterable[tuple[Path, Mapping[str, Any]]]

#: What a source gives: where exactly, in words, and the values by the settings' names.
_Given = Iterator[tuple[str, dict[str, Any]]]

_Settings = TypeVar("_Settings")


class ValueKind(NamedTuple):
    """What the value of a setting is; the same for all three sources.

    A named tuple: every command makes this class, and a frozen dataclass takes seven times as long.

    Attributes:
        words: for messages and the reference page.
        metavar: what stands for it in help texts, where no option has a better one.
        parse: makes a value of text; a `ValueError` says that it is of another kind.
        is_good: tells whether a value of a TOML file is of this kind.
        made: makes the setting's value of one that was read from a file or the command line.
    """

    words: str
    metavar: str
    parse: Callable[[str], Any]
    is_good: Callable[[Any], bool]
    made: Callable[[Any], Any] = lambda value: value


def is_whole(value: Any) -> bool:
    """Tell whether a value of a TOML file is a whole number."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Tell whether a value of a TOML file is a number; a whole one is."""
    return is_whole(value) or isinstance(value, float)


TEXT = ValueKind("text", "TEXT", str, lambda value: isinstance(value, str))
INTEGER = ValueKind("a whole number", "N", int, is_whole)
NUMBER = ValueKind("a number", "X", float, is_number)


def choice(of: type[StrEnum]) -> ValueKind:
    """Return the kind of settings that are one of a few words."""
    return ValueKind(" or ".join(of), "|".join(of), of, lambda value: value in list(of), of)


def argument(parse: Callable[[str], Any], words: str) -> Callable[[str], Any]:
    """Return what makes a value of an argument of the command line.

    Args:
        parse: makes it of text; a `ValueError` says that it cannot.
        words: what it has to be.
    """

    def read(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"must be {words}, not {text!r}") from error

    return read


class SettingsTableFormat(NamedTuple):
    """How the settings of one table are spelled, and what their values are.

    Attributes:
        title: of the table, as messages name it.
        prefix: of the table's variables.
        foreign: prefix of variables among them that belong to somebody else; empty: there are none.
        known: other variables with the prefix.
        variable_of, flag_of: how a setting is spelled in the environment and on the command line.
        kinds: of all settings, by name.
    """

    title: str
    prefix: str
    foreign: str
    known: tuple[str, ...]
    variable_of: Callable[[str], str]
    flag_of: Callable[[str], str]
    kinds: Mapping[str, ValueKind]


def key_of(name: str) -> str:
    """Return how a setting is spelled in `pyproject.toml`."""
    return name.replace("_", "-")


def gather(
    vocabulary: SettingsTableFormat,
    tables: Tables,
    environment: Mapping[str, str],
    given: Mapping[str, Any],
    make: Callable[..., _Settings],
) -> tuple[_Settings, Mapping[str, str]]:
    """Return settings, and for each one the place it came from, in words.

    Args:
        tables: of the project, at most one.
        environment: the caller's.
        given: settings named on the command line, by name.
        make: takes the values by name.

    Raises:
        UsageError: a key is unknown, or a value has the wrong type or range.
    """
    values: dict[str, Any] = {}
    sources = dict.fromkeys(vocabulary.kinds, "default")
    for source, found in (
        *_from_tables(vocabulary, tables),
        *_from_environment(vocabulary, environment),
        *_from_command_line(vocabulary, given),
    ):
        values |= found
        sources |= dict.fromkeys(found, source)
    try:
        return make(**values), sources
    except UsageError as error:
        culprit = next((name for name in values if error.message.split(" ")[0] == name), None)
        hint = f"It comes from: {sources[culprit]}." if culprit else error.hint
        raise UsageError(error.code, error.message, hint) from error


def _from_tables(vocabulary: SettingsTableFormat, tables: Tables) -> _Given:
    for path, table in tables:
        yield str(path), _named(vocabulary, table, path)


def _named(vocabulary: SettingsTableFormat, table: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return the values of a table by the settings' names; dashes and underscores are the same."""
    values: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in vocabulary.kinds:
            message = f"{path}: unknown key {key!r} in [{vocabulary.title}]."
            raise UsageError("UNKNOWN_SETTING", message, _near(vocabulary, key))
        if name in values:
            raise UsageError("BAD_SETTING", f"{path}: {key_of(name)} is given twice.")
        kind = vocabulary.kinds[name]
        if not kind.is_good(value):
            raise UsageError("BAD_SETTING", f"{path}: {key_of(name)} must be {kind.words}, not {value!r}.")
        values[name] = kind.made(value)
    return values


def _near(vocabulary: SettingsTableFormat, key: str) -> str:
    import difflib

    known = [key_of(name) for name in vocabulary.kinds]
    close = difflib.get_close_matches(key.replace("_", "-"), known, n=1)
    return f"Did you mean {close[0]!r}?" if close else "See docs/reference/commands.md for the settings."


def _from_environment(vocabulary: SettingsTableFormat, environment: Mapping[str, str]) -> _Given:
    variables = {vocabulary.variable_of(name): name for name in vocabulary.kinds}
    for variable in sorted(key for key in environment if key.startswith(vocabulary.prefix)):
        if variable in variables:
            name = variables[variable]
            value = _parsed(vocabulary.kinds[name], variable, environment[variable])
            yield f"environment, {variable}", {name: value}
        elif not (vocabulary.foreign and variable.startswith(vocabulary.foreign)):
            _refuse_misspelled(variable, [*variables, *vocabulary.known])


def _parsed(kind: ValueKind, variable: str, text: str) -> Any:
    try:
        return kind.parse(text)
    except ValueError as error:
        raise UsageError("BAD_SETTING", f"{variable} must be {kind.words}, not {text!r}.") from error


def _from_command_line(vocabulary: SettingsTableFormat, given: Mapping[str, Any]) -> _Given:
    for name, kind in vocabulary.kinds.items():
        if name in given:
            yield f"command line, {vocabulary.flag_of(name)}", {name: kind.made(given[name])}


def _refuse_misspelled(variable: str, known: Sequence[str]) -> None:
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
        hint = f"Did you mean {suffixes[close[0]]}?"
        raise UsageError("UNKNOWN_SETTING", f"Unknown environment variable {variable}.", hint)
