"""Sources of settings: the user's file, `pyproject.toml`, environment, command line; the last one wins.

The user's folders and name come from there, too. One reader for all tables; a
`SettingsTable` says how one is spelled.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from codeflash_parallel.config.environment import QUIET_VARIABLE
from codeflash_parallel.config.settings import HOSTS, SETTINGS, Executor, Settings
from codeflash_parallel.config.settings_table import PREFIX, SettingColumns, key_of
from codeflash_parallel.result.errors import EnvironmentFault, UsageError

#: Names the submitter, where several share one user.
SUBMITTER = "CODEFLASH_PARALLEL_SUBMITTER"
#: Names the run that several submitters are part of.
RUN_OF = "CODEFLASH_PARALLEL_RUN_OF"

#: Longest name of a submitter or run: it stands in tables and labels.
MAX_NAME = 64


def cache_root(settings: Settings) -> Path:
    """Return where mirrors, slots and results are kept: the setting, or the user's cache directory.

    Raises:
        EnvironmentFault: `NO_CACHE`, the user has no home and names no cache.
    """
    try:
        if settings.cache_dir:
            path = Path(settings.cache_dir).expanduser().absolute()
            return path.resolve() if ".." in path.parts else path  # what is not there cannot be left again
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError as error:  # there is no home
        hint = "Name a folder with --cache-dir, or set HOME."
        raise EnvironmentFault("NO_CACHE", f"There is no place for a cache: {error}", hint) from error
    return base / "codeflash-parallel"


def queue_folder(settings: Settings) -> Path:
    """Return where the evaluation queue is kept: the setting, or a folder of the cache.

    Raises:
        EnvironmentFault: `NO_CACHE`, as `cache_root`.
    """
    if settings.queue_dir:
        return Path(settings.queue_dir).expanduser().absolute()
    return cache_root(settings) / "queue"


def why_not_name(text: str) -> str:
    """Return why a submitter or run cannot have a name, one clause; empty when it can, or has none."""
    fits = text.isprintable() and len(text) <= MAX_NAME
    return "" if fits else f"must be 1 to {MAX_NAME} printable characters, not {text!r}"


def submitter_of(given: str, environment: Mapping[str, str]) -> str:
    """Return the submitter: the given one, else the variable's, else the user.

    The user alone, not the terminal: a command whose streams are redirected has none, and a user at
    another one would not find its jobs.

    Raises:
        UsageError: `BAD_SETTING`: it is no name.
    """
    return (
        _valid_name("submitter", given) or _valid_name(SUBMITTER, environment.get(SUBMITTER, "")) or _user()
    )


def run_of(given: str, environment: Mapping[str, str]) -> str:
    """Return the run that jobs belong to: the one given, else the variable's; empty: none.

    Raises:
        UsageError: `BAD_SETTING`: it is no name.
    """
    return _valid_name("run", given) or _valid_name(RUN_OF, environment.get(RUN_OF, ""))


def _valid_name(what: str, text: str) -> str:
    if why := why_not_name(text):
        raise UsageError("BAD_SETTING", f"{what} {why}.")
    return text


def _user() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container may run as a user that has no name
        return f"uid{os.getuid()}"


#: The table of `pyproject.toml` that is ours.
TABLE = "codeflash-parallel"
#: A table in it, and in the user's file: the settings of the evaluation queue.
QUEUE_TABLE = "queue"

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
        foreign: prefixes of variables among them of other tables.
        known: other variables with the prefix.
    """

    make: Callable[..., _Settings]
    columns: Mapping[str, SettingColumns]
    section: str = ""
    prefix: str = PREFIX
    foreign: tuple[str, ...] = ()
    known: tuple[str, ...] = ()


class SettingsWithSources(NamedTuple, Generic[_Settings]):
    """Settings, and for each one the place it came from, in words."""

    settings: _Settings
    sources: Mapping[str, str]


def read_table(
    table: SettingsTable[_Settings],
    project: Path,
    environment: Mapping[str, str],
    given: Mapping[str, Any],
) -> SettingsWithSources[_Settings]:
    """Return the settings of a table.

    Args:
        table: what is read.
        project: folder of the project; `pyproject.toml` is looked for from there up to the repository's root.
        environment: the caller's environment; it also says where the user's file lies.
        given: settings named on the command line, by name.

    Raises:
        UsageError: a key is unknown, a value has the wrong type or range, or the file is no TOML.
    """
    values: dict[str, Any] = {}
    sources = dict.fromkeys(table.columns, "default")
    for source, found in (
        *_from_files(table, _tables(project, environment)),
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


def must_be_there(project: Path) -> None:
    """Refuse a project that does not exist.

    Raises:
        UsageError: `NO_PROJECT`.
    """
    if not project.exists():
        hint = "Name its folder by --project."
        raise UsageError("NO_PROJECT", f"The project {project} does not exist.", hint)


def user_file(environment: Mapping[str, str]) -> Path | None:
    """Return the path of the user's configuration file, which may not exist; `None` without a home."""
    named = environment.get("XDG_CONFIG_HOME", ""), environment.get("HOME", "")
    folders = (Path(named[0]), Path(named[1], ".config"))
    # Relative paths are to be ignored: XDG Base Directory Specification.
    return next((folder / TABLE / "config.toml" for folder in folders if folder.is_absolute()), None)


def _tables(project: Path, environment: Mapping[str, str]) -> Iterator[tuple[Path, Any]]:
    """Yield files that exist and the tables in them that are ours, the one that counts most last.

    Raises:
        UsageError: `NO_PROJECT`, `BAD_CONFIG`.
    """
    own = user_file(environment)
    # A folder that this user may not enter belongs to another one, whose HOME `sudo` may have left behind.
    if own is not None and os.access(own.parent, os.X_OK) and (content := _read_toml(own)) is not None:
        yield own, content
    for folder in _folders(project):
        path = folder / "pyproject.toml"
        tool = (_read_toml(path) or {}).get("tool", {})
        _require_table(tool, path, "tool")
        if TABLE in tool:
            _require_table(tool[TABLE], path, f"tool.{TABLE}")
            yield path, tool[TABLE]
            return


def _folders(project: Path) -> list[Path]:
    """Return a folder and its parents up to the one that holds `.git`; outside a repository only itself.

    Raises:
        UsageError: `NO_PROJECT`, the folder cannot be looked at.
    """
    try:
        folder = project.resolve()
        chain = [folder, *folder.parents]
        root = next((place for place, parent in enumerate(chain) if (parent / ".git").exists()), 0)
        return chain[: root + 1]
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        message = f"The project {project} cannot be looked at: {why}."
        raise UsageError("NO_PROJECT", message, "Name its folder by --project.") from error


def _read_toml(path: Path) -> Mapping[str, Any] | None:
    """Return the content of a file; `None`: it is not there.

    Raises:
        UsageError: `BAD_CONFIG`.
    """
    try:
        if not path.exists():
            return None
        import tomllib  # `queue submit` answers at once

        return tomllib.loads(path.read_bytes().decode("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError("BAD_CONFIG", f"{path} cannot be read: {error}.") from error


def _require_table(value: Any, path: Path, title: str) -> None:
    if not isinstance(value, dict):
        raise UsageError("BAD_CONFIG", f"{path}: {title} must be a table.")


def _from_files(table: SettingsTable[Any], tables: Iterable[tuple[Path, Any]]) -> _Given:
    for path, ours in tables:
        content = {key: ours[key] for key in ours if key != QUEUE_TABLE}
        if table.section:
            content = ours.get(table.section, {})
            _require_table(content, path, table.section)
        yield str(path), _named(table, content, path)


def _named(table: SettingsTable[Any], content: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return the values of a table by the settings' names; dashes and underscores are the same."""
    values: dict[str, Any] = {}
    for key, value in content.items():
        row = table.columns.get(key.replace("-", "_"))
        if row is None:
            where = f" in the table {table.section}" if table.section else ""
            message = f"{path}: unknown key {key!r}{where}."
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


def read_settings(
    project: Path, environment: Mapping[str, str], given: Mapping[str, Any]
) -> SettingsWithSources[Settings]:
    """Return the settings of a run, as `read_table` does.

    Raises:
        UsageError: as `read_table` or `refuse_unused`.
    """
    found = read_table(_RUN, project, environment, given)
    refuse_unused(found.settings, given)
    return found


def refuse_unused(settings: Settings, given: Mapping[str, Any]) -> None:
    """Refuse options of other hosts where none of them is used; in a file they may stand for another time.

    Args:
        given: settings named on the command line, by name.

    Raises:
        UsageError: `BAD_SETTING`.
    """
    executor = Executor(settings.executor)
    for name in HOSTS:
        if name in given and name != "executor" and not executor.is_cluster:
            message = f"{SETTINGS[name].flag} is for --executor ray or slurm, and the executor is {executor}."
            raise UsageError("BAD_SETTING", message)
