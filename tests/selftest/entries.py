"""The corpus: attacks and honest candidates, each with what it is held against. Read from data files."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any

#: Stands in the code of an attack for a folder outside of every tree, of this attack alone.
OUTSIDE = "@OUTSIDE@"

#: Stands in the code of an attack for a word that nothing else on this machine has in it.
TOKEN = "@TOKEN@"

#: Stands in the code of an attack for a TCP port of this machine on which somebody listens.
PORT = "@PORT@"

#: Stands in the code of an attack for the number of the one process that it must leave alive: ours.
SPARED = "@SPARED@"

#: Variable in the environment of the evaluator, and of the naive gate; what it holds is `TOKEN`.
SECRET_VARIABLE = "SELFTEST_API_KEY"

LEVELS = ("none", "landlock", "sandbox")


class Kind(StrEnum):
    """What a candidate of the corpus is after."""

    #: It is wrong, and wants to pass.
    WRONG = "wrong"
    #: It gives the right values, and wants to look faster than it is.
    CLOCK = "clock"
    #: It wants to reach what lies outside of its process and tree.
    HOST = "host"
    #: It is a rewrite that does the same.
    HONEST = "honest"


class Trace(StrEnum):
    """How one sees that an attack on the host has reached what it wanted."""

    #: No way to see it: what is wrong is the candidate itself.
    NONE = ""
    #: There is a file in the folder outside.
    FILE = "file"
    #: A process with the token in its command line is alive.
    PROCESS = "process"
    #: The token stands in what is reported or kept.
    SECRET = "secret"
    #: Somebody has connected to the port.
    CONNECTION = "connection"
    #: The process that started it, or another of the run, is dead.
    KILLED = "killed"
    #: More is kept or shown than anybody can read.
    OUTPUT = "output"
    #: There is a file in a git directory that others use.
    GIT = "git"
    #: A terminal would be sent control characters.
    ESCAPES = "escapes"


@dataclass(frozen=True, kw_only=True, slots=True)
class Base:
    """A small project that candidates change.

    Attributes:
        module: the file that candidates follow or replace.
        targets: functions of it that are under optimization.
        files: text by path, POSIX.
        needs: modules that the interpreter must have.
        options: of the command line.
    """

    name: str
    about: str
    module: str
    targets: tuple[str, ...]
    files: Mapping[str, str]
    needs: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Timing:
    """How an in-process timer is fooled: see `timer`."""

    function: str = "work"
    argument: str = "tuple(range(40))"
    way: str = "wall"


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One candidate of the corpus.

    Attributes:
        entry: line of the catalogue of attacks.
        about: what it does, where its name does not say it.
        code: follows the text of the base's module, or replaces one function (`function`).
        function: of honest candidates: what the code replaces.
        files: further files by path; `None` removes one.
        lowest: the lowest isolation level that must stop it.
        codes: acceptable codes; empty: any rejection.
        trace: how one sees that it has reached the host.
        alone: it gets a run of its own, because it disturbs others.
        quick: it is part of the short selftest.
        options: of the command line, for a run of its own.
        guards: words of which one stands in the reason of a cheat that is raced alone.
    """

    name: str
    family: str
    kind: Kind
    base: str = "plain"
    entry: str = ""
    about: str = ""
    code: str = ""
    function: str = ""
    files: Mapping[str, str | None] = field(default_factory=dict)
    lowest: str = "none"
    codes: tuple[str, ...] = ()
    trace: Trace = Trace.NONE
    alone: bool = False
    quick: bool = True
    options: tuple[str, ...] = ()
    guards: tuple[str, ...] = ()
    timing: Timing = field(default_factory=Timing)

    @property
    def is_attack(self) -> bool:
        """Say whether it must not be accepted."""
        return self.kind is not Kind.HONEST


@cache
def bases() -> Mapping[str, Base]:
    """Return every project by its name."""
    return {name: _base(name, data) for name, data in _read("bases").items()}


#: Family (a file of the corpus) → what its entries are unless they say otherwise.
FAMILIES = {
    "control": Kind.WRONG,
    "internals": Kind.WRONG,
    "values": Kind.WRONG,
    "files": Kind.WRONG,
    "clock": Kind.CLOCK,
    "host": Kind.HOST,
    "combined": Kind.WRONG,
    "honest": Kind.HONEST,
}


@cache
def corpus() -> tuple[Entry, ...]:
    """Return every entry, by family and in the order of the files."""
    return tuple(_entries())


def _entries() -> Iterator[Entry]:
    for family, kind in FAMILIES.items():
        for name, data in _read(family).items():
            # A base that is called as the family is, is what its entries change.
            base = family if family in bases() else "plain"
            yield _entry(name, family, {"kind": kind.value, "base": base, **data})


def _read(name: str) -> dict[str, Any]:
    text = files(__package__).joinpath("corpus", f"{name}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _base(name: str, data: Mapping[str, Any]) -> Base:
    texts = {path: text.lstrip("\n") for path, text in data["files"].items()}
    return Base(name=name, **{**data, **_tuples(data), "files": texts})


def _entry(name: str, family: str, data: Mapping[str, Any]) -> Entry:
    made: dict[str, Any] = {**data, **_tuples(data)}
    made["kind"], made["trace"] = Kind(data["kind"]), Trace(data.get("trace", ""))
    made["timing"] = Timing(**data.get("timing", {}))
    # TOML has no null: false removes a file.
    made["files"] = {path: text or None for path, text in data.get("files", {}).items()}
    return Entry(name=name, family=family, **made)


def _tuples(data: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    return {key: tuple(value) for key, value in data.items() if isinstance(value, list)}
