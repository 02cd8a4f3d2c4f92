"""Where settings come from: `pyproject.toml`, the environment, the command line; the last one wins.

One reader for all tables; a `SettingsTable` says how one is spelled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from codeflash_parallel.config.environment_allowlist import QUIET_VARIABLE
from codeflash_parallel.config.pyproject import QUEUE_TABLE, TABLE, find_table
from codeflash_parallel.config.settings import SETTINGS, Settings
from codeflash_parallel.config.settings_table import PREFIX, SettingColumns, key_of
from codeflash_parallel.config.submitter_identity import RUN_OF, SUBMITTER
from codeflash_parallel.result.errors import UsageError

#: A file, and our table in it.
Tables = Iterable[tuple[Path, Mapping[str, Any]]]

#: Every environment variable of a setting of the queue begins with it.
QUEUE_PREFIX = f"{PREFIX}QUEUE_"

#: What a source gives: where exactly, in words, and the values by the settings' names.
_Given = Iterator[tuple[str, dict[str, Any]]]

_Settings = TypeVar("_Settings")


class SettingsTable(NamedTuple, Generic[_Settings]):
    """A table of settings and where its values stand.

    Attributes:
        make: takes the values by name.
        columns: of every setting, by name.
        section: name of its table inside ours; empty: it is ours itself.
        prefix: of its variables.
        foreign: prefixes of variables among them that belong to somebody else.
        known: other variables with the prefix.
    """

    make: Callable[..., _Settings]
    columns: Mapping[str, SettingColumns]
    section: str = ""
    prefix: str = PREFIX
    foreign: tuple[str, ...] = ()
    known: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The table as messages name it."""
        return f"tool.{TABLE}.{self.section}".rstrip(".")


class SettingsWithSources(NamedTuple, Generic[_Settings]):
    """Settings, and for each one the place it came from, in words."""

    settings: _Settings
    sources: Mapping[str, str]


def read_table(
    table: SettingsTable[_Settings],
    project: Path,
    environment: Mapping[str, str],
    given: Mapping[str, Any],
    tables: Tables | None = None,
) -> SettingsWithSources[_Settings]:
    """Return the settings of a table.

    Args:
        table: what is read.
        project: folder of the project; `pyproject.toml` is looked for from there up to the repository's root.
        environment: the caller's environment.
        given: settings named on the command line, by name.
        tables: what `find_table` found, for who has asked it already.

    Raises:
        UsageError: a key is unknown, a value has the wrong type or range, or the file is no TOML.
    """
    values: dict[str, Any] = {}
    sources = dict.fromkeys(table.columns, "default")
    for source, found in (
        *_from_files(table, find_table(project) if tables is None else tables),
        *_from_environment(table, environment),
        *_from_command_line(table, given),
    ):
        values |= found
        sources |= dict.fromkeys(found, source)
    try:
        return SettingsWithSources(table.make(**values), sources)
    except UsageError as error:
        culprit = next((name for name in values if error.message.split(" ")[0] == name), None)
        hint = f"It comes from: {sources[culprit]}." if culprit else error.hint
        raise UsageError(error.code, error.message, hint) from error


def _from_files(table: SettingsTable[Any], tables: Tables) -> _Given:
    for path, ours in tables:
        if not table.section:
            yield str(path), _named(table, {key: ours[key] for key in ours if key != QUEUE_TABLE}, path)
        elif isinstance(section := ours.get(table.section, {}), dict):
            yield str(path), _named(table, section, path)
        else:
            raise UsageError("BAD_CONFIG", f"{path}: {table.title} must be a table.")


def _named(table: SettingsTable[Any], content: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return the values of a table by the settings' names; dashes and underscores are the same."""
    values: dict[str, Any] = {}
    for key, value in content.items():
        row = table.columns.get(key.replace("-", "_"))
        if row is None:
            message = f"{path}: unknown key {key!r} in [{table.title}]."
            raise UsageError("UNKNOWN_SETTING", message, _near(table, key))
        if row.name in values:
            raise UsageError("BAD_SETTING", f"{path}: {row.key} is given twice.")
        if not row.kind.is_good(value):
            raise UsageError("BAD_SETTING", f"{path}: {row.key} must be {row.kind.words}, not {value!r}.")
        values[row.name] = row.kind.made(value)
    return values


def _near(table: SettingsTable[Any], key: str) -> str:
    import difflib

    known = [row.key for row in table.columns.values()]
    close = difflib.get_close_matches(key_of(key), known, n=1)
    return f"Did you mean {close[0]!r}?" if close else "See docs/reference/commands.md for the settings."


def _from_environment(table: SettingsTable[Any], environment: Mapping[str, str]) -> _Given:
    rows = {row.variable: row for row in table.columns.values()}
    for variable in sorted(key for key in environment if key.startswith(table.prefix)):
        if variable in rows:
            yield f"environment, {variable}", {rows[variable].name: _parsed(rows[variable], environment)}
        elif not variable.startswith(table.foreign) and variable not in table.known:
            _refuse_misspelled(variable, [*rows, *table.known])


def _parsed(row: SettingColumns, environment: Mapping[str, str]) -> Any:
    text = environment[row.variable]
    try:
        return row.kind.parse_all(text)
    except ValueError as error:
        message = f"{row.variable} must be {row.kind.words}, not {text!r}."
        raise UsageError("BAD_SETTING", message) from error


def _from_command_line(table: SettingsTable[Any], given: Mapping[str, Any]) -> _Given:
    for name, row in table.columns.items():
        if name in given:
            yield f"command line, {row.flag}", {name: row.kind.made(given[name])}


def _refuse_misspelled(variable: str, known: Iterable[str]) -> None:
    """Refuse a variable that is nearly one of ours; others may belong to our tests or to a run around us.

    Raises:
        UsageError: `UNKNOWN_SETTING`.
    """
    import difflib

    suffixes = {name.removeprefix(PREFIX): name for name in known}
    close = difflib.get_close_matches(variable.removeprefix(PREFIX), suffixes, n=1, cutoff=0.8)
    if close:
        hint = f"Did you mean {suffixes[close[0]]}?"
        raise UsageError("UNKNOWN_SETTING", f"Unknown environment variable {variable}.", hint)


_RUN = SettingsTable(Settings, SETTINGS, foreign=(QUEUE_PREFIX,), known=(SUBMITTER, RUN_OF, QUIET_VARIABLE))

#: Reads the settings of a run, as `read_table` does.
read_settings = partial(read_table, _RUN)
