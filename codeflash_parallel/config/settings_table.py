"""Columns of a settings table, kinds of values, and the checks that every value has to pass. Light.

A table is a frozen dataclass whose fields are made by `setting`: `config.settings.Settings` of a run,
`queue.queue_settings.QueueSettings` of the queue. Command line, environment, `pyproject.toml` and the
reference page are made from its columns: a new setting is one entry of its class, and its use.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, field, fields
from enum import StrEnum
from functools import partial
from typing import Any, Literal, NamedTuple

from codeflash_parallel.result.errors import UsageError

#: Every environment variable of ours begins with it.
PREFIX = "CODEFLASH_PARALLEL_"

#: Default of `maximum`: as seconds 272 years, which waits of threads bear; as MiB more than any machine has,
#: and what the kernel's counters hold.
HIGHEST = 1 << 33

#: Characters of what is said of a value, which may be a whole file's text.
_LONGEST_MESSAGE = 300

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})
_UNITS_S: Mapping[str, float] = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}

#: `auto` or a positive number of slots.
Parallel = int | Literal["auto"]

#: A count per span, `1/5m`; empty: none. Its table checks it.
RateText = str


class SettingGroup(StrEnum):
    """Subject of a setting."""

    #: Every evaluation.
    RUN = "run"
    #: The race; without one they are not read.
    RACE = "race"
    #: How much is done at once, for how long, and what is left: a resumed run may change it.
    CONDITIONS = "conditions"
    #: Where things lie, and the executor: no job brings it along.
    PLACE = "place"

    @property
    def changes_verdict(self) -> bool:
        """True if a resumed run must leave its settings as they were."""
        return self in {SettingGroup.RUN, SettingGroup.RACE}


class ValueKind(NamedTuple):
    """Kind of a setting's value; the same for all three sources.

    A named tuple: every command makes this class, and a frozen dataclass takes seven times as long.

    Attributes:
        words: for messages and the reference page.
        metavar: what stands for it in help texts, where the table has no better one.
        parse: makes a value of text, of several values one; a `ValueError` says that it is of another kind.
        is_good: tells whether a value of a TOML file is of this kind.
        made: makes the setting's value of one that was read from a file or the command line.
        is_several: several texts make the value.
    """

    words: str
    metavar: str
    parse: Callable[[str], Any]
    is_good: Callable[[Any], bool]
    made: Callable[[Any], Any] = lambda value: value
    is_several: bool = False

    def parse_all(self, text: str) -> Any:
        """Return the value of a text, several ones quoted as a shell does.

        Raises:
            ValueError: it is of another kind.
        """
        if not self.is_several:
            return self.parse(text)
        import shlex

        return self.made(map(self.parse, shlex.split(text)))


def span_s(text: str) -> float:
    """Return the seconds of a span: `100`, `100s`, `2m`, `1.5h`, `1d`.

    Raises:
        ValueError: it is none.
    """
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    seconds = float(number) * _UNITS_S.get(text[len(number) :], math.nan)
    if not 0 <= seconds <= HIGHEST:
        raise ValueError(text)
    return seconds


def _switch(text: str) -> bool:
    if text.lower() not in _TRUE | _FALSE:
        raise ValueError(text)
    return text.lower() in _TRUE


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _pair(text: str, of: ValueKind) -> tuple[str, float]:
    name, separator, figure = text.rpartition("=")
    if not (name and separator):
        raise ValueError(text)
    return name, of.parse(figure)


def _numbers(words: str, of: ValueKind) -> ValueKind:
    """Return the kind of settings that are names with numbers of a kind."""

    def is_good(value: Any) -> bool:
        return isinstance(value, dict) and all(map(of.is_good, value.values()))

    metavar = f"NAME={of.metavar}"
    return ValueKind(f"{words}, {metavar}", metavar, partial(_pair, of=of), is_good, dict, is_several=True)


def choice(of: type[StrEnum]) -> ValueKind:
    """Return the kind of settings that are one of a few words."""
    return ValueKind(" or ".join(of), "|".join(of), of, lambda value: value in list(of))


TEXT = ValueKind("text", "TEXT", str, _is_text)
INTEGER = ValueKind("a whole number", "N", int, _is_whole)
NUMBER = ValueKind("a number", "X", float, lambda value: _is_whole(value) or isinstance(value, float))
SWITCH = ValueKind("true or false", "", _switch, lambda value: isinstance(value, bool))
TEXTS = ValueKind("a list of texts", "", str, _are_texts, tuple, is_several=True)
PARALLEL = ValueKind(
    "auto or a whole number",
    "N|auto",
    lambda text: text if text == "auto" else int(text),
    lambda value: _is_whole(value) or value == "auto",
)
RATE = ValueKind("a count per span such as 1/5m, units s, m, h and d", "N/SPAN", str, _is_text)
NUMBERS = _numbers("names and numbers", NUMBER)
INTEGERS = _numbers("names and whole numbers", INTEGER)

#: Kinds by the annotation of a field; one with `choices` has its words.
_KINDS = {
    "str": TEXT,
    "int": INTEGER,
    "float": NUMBER,
    "bool": SWITCH,
    "tuple[str, ...]": TEXTS,
    "Parallel": PARALLEL,
    "RateText": RATE,
    "Mapping[str, float]": NUMBERS,
    "Mapping[str, int]": INTEGERS,
}


class SettingColumns(NamedTuple):
    """The row of a setting in its table.

    Attributes:
        help: one sentence or two, with the unit.
        default: the value where no source gives one.
        flag, variable: how it is spelled on the command line and in the environment; made from its name
            where the entry does not say it. `short` is a second spelling.
        metavar: what stands for the value in help texts; that of its kind where the entry does not say it.
        takes_several: its option takes several values at once.
        minimum, maximum: bounds of a number, or of each of several.
        choices: the words that it may be.
        why_not: returns why it cannot be a text, one clause; empty when it can. The default always can.
        group: what it is about, and whether it changes a verdict.
        name, kind: from its field.
    """

    help: str
    default: Any
    flag: str = ""
    short: str = ""
    variable: str = ""
    metavar: str = ""
    takes_several: bool = False
    minimum: float = 0
    maximum: float = HIGHEST
    choices: type[StrEnum] | None = None
    why_not: Callable[[str], str] | None = None
    group: SettingGroup = SettingGroup.RUN
    name: str = ""
    kind: ValueKind = TEXT

    @property
    def key(self) -> str:
        """Its spelling in `pyproject.toml`."""
        return key_of(self.name)


def key_of(name: str) -> str:
    """Return how a setting is spelled in `pyproject.toml`."""
    return name.replace("_", "-")


def setting(default: Any, help_text: str, **columns: Any) -> Any:
    """Declare one setting; the columns are those of `SettingColumns`."""
    metadata = {"columns": SettingColumns(help_text, default, **columns)}
    if isinstance(default, Mapping):  # before Python 3.12 it has no hash, and counts as mutable
        return field(default_factory=lambda: default, metadata=metadata)
    return field(default=default, metadata=metadata)


def switch(help_text: str, **columns: Any) -> Any:
    """Declare a setting that is off where no source gives it."""
    return setting(default=False, help_text=help_text, **columns)


def columns_of(table: Any, prefix: str) -> dict[str, SettingColumns]:
    """Return the columns of every setting of a table by its name.

    Args:
        table: a dataclass of settings.
        prefix: of its environment variables.
    """
    return {f.name: _row(f, prefix) for f in fields(table)}


def _row(entry: Field[Any], prefix: str) -> SettingColumns:
    row: SettingColumns = entry.metadata["columns"]
    kind = _KINDS[str(entry.type)] if row.choices is None else choice(row.choices)
    return row._replace(
        name=entry.name,
        kind=kind,
        flag=row.flag or f"--{key_of(entry.name)}",
        variable=prefix + (row.variable or entry.name.upper()),
        metavar=row.metavar or kind.metavar,
    )


def check_values(settings: object, table: Mapping[str, SettingColumns]) -> None:
    """Check what the table says of every value, and make the words of a choice its members.

    Raises:
        UsageError: `BAD_SETTING`.
    """
    for name, row in table.items():
        value = getattr(settings, name)
        if row.choices is not None:
            if value not in list(row.choices):
                raise bad_setting(f"{name} must be {row.kind.words}, not {value!r}.")
            # A library call may give the plain text; code compares by identity.
            object.__setattr__(settings, name, row.choices(value))
        if value != row.default:
            for label, item in _items(name, value):
                if why := _why_not(item, row):
                    raise bad_setting(f"{label} {why}.")


def _items(name: str, value: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(value, Mapping):
        return ((f"{name} of {key!r}", item) for key, item in value.items())
    return ((name, item) for item in (value if isinstance(value, tuple) else (value,)))


def _why_not(value: Any, row: SettingColumns) -> str:
    if isinstance(value, str):
        if "\0" in value:
            return "must not contain the character NUL"  # no path or argument can
        return row.why_not(value) if row.why_not else ""
    if not isinstance(value, int | float):
        return ""
    if not -math.inf < value < math.inf:
        return f"must be a finite number, not {value}"
    if value < row.minimum:
        return f"must be at least {row.minimum}, not {value}"
    return f"must be at most {row.maximum}, not {value}" if value > row.maximum else ""


def bad_setting(message: str) -> UsageError:
    """Return the error of a value, in one line of bounded length."""
    short = message if len(message) <= _LONGEST_MESSAGE else f"{message[:_LONGEST_MESSAGE]}…"
    return UsageError("BAD_SETTING", short)
