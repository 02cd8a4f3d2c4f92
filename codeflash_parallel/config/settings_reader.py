"""Where settings come from: `pyproject.toml`, the environment, the command line; the last one wins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from codeflash_parallel.config.environment_allowlist import QUIET_VARIABLE
from codeflash_parallel.config.pyproject import QUEUE_TABLE, TABLE, find_table
from codeflash_parallel.config.settings import SETTINGS, ComparisonMode, Settings
from codeflash_parallel.config.sources import (
    INTEGER,
    NUMBER,
    PREFIX,
    QUEUE_PREFIX,
    TEXT,
    SettingsTableFormat,
    Tables,
    ValueKind,
    choice,
    gather,
    is_whole,
    key_of,
)
from codeflash_parallel.config.submitter_identity import RUN_OF, SUBMITTER

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})


class SettingsWithSources(NamedTuple):
    """Settings, and for each one the place it came from, in words."""

    settings: Settings
    sources: Mapping[str, str]


def variable_of(name: str) -> str:
    """Return the environment variable of a setting."""
    return PREFIX + (SETTINGS[name].variable or name.upper())


def flag_of(name: str) -> str:
    """Return how a setting is spelled on the command line."""
    return SETTINGS[name].flag or f"--{key_of(name)}"


def read_settings(
    project: Path, environment: Mapping[str, str], given: Mapping[str, Any], tables: Tables | None = None
) -> SettingsWithSources:
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
    return SettingsWithSources(settings=settings, sources=MappingProxyType(sources))


def _switch(text: str) -> bool:
    if text.lower() not in _TRUE | _FALSE:
        raise ValueError(text)
    return text.lower() in _TRUE


def _parallel(text: str) -> int | str:
    return text if text == "auto" else int(text)


def _texts(text: str) -> tuple[str, ...]:
    import shlex

    return tuple(shlex.split(text))


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


SWITCH = ValueKind("true or false", "", _switch, lambda value: isinstance(value, bool))
TEXTS = ValueKind("a list of texts", "", _texts, _is_list_of_texts, tuple)
PARALLEL = ValueKind(
    "auto or a whole number", "", _parallel, lambda value: is_whole(value) or value == "auto"
)
COMPARE = choice(ComparisonMode)

_KINDS = {
    "str": TEXT,
    "int": INTEGER,
    "float": NUMBER,
    "bool": SWITCH,
    "tuple[str, ...]": TEXTS,
    "Parallel": PARALLEL,
    "ComparisonMode": COMPARE,
}

#: The kind of every setting, from the one table.
KINDS: Mapping[str, ValueKind] = MappingProxyType({f.name: _KINDS[str(f.type)] for f in fields(Settings)})

_VOCABULARY = SettingsTableFormat(
    title=f"tool.{TABLE}",
    prefix=PREFIX,
    foreign=QUEUE_PREFIX,
    known=(SUBMITTER, RUN_OF, QUIET_VARIABLE),
    variable_of=variable_of,
    flag_of=flag_of,
    kinds=KINDS,
)
