"""Errors, grouped by whose fault they are.

CodeflashParallelError
├── UsageError          the caller's: a bad flag, file or setting      exit 2
├── EnvironmentFault    the machine's, git's, or a red baseline's      exit 4
└── InternalError       ours: a defect, worth a report with the log    exit 3

A candidate's misbehaviour is never an exception: it is a value (see `outcome`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar


class CodeflashParallelError(Exception):
    """Carry a stable code, one sentence about what is wrong, and what to do next.

    Args:
        code: stable upper-case name that programs match on, e.g. ``"NOT_A_REPOSITORY"``.
        message: what is wrong and where, one sentence.
        hint: what to do next; empty when there is nothing useful to say.
    """

    family: ClassVar[str] = "internal"
    exit_code: ClassVar[int] = 3

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(code, message, hint)
        self.code = code
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class UsageError(CodeflashParallelError):
    """The caller asked for something that cannot be: exit 2."""

    family = "usage"
    exit_code = 2


class EnvironmentFault(CodeflashParallelError):  # noqa: N818 - the plan of record names it so
    """The machine, git or the project's baseline is unfit: exit 4."""

    family = "environment"
    exit_code = 4


class InternalError(CodeflashParallelError):
    """A defect of ours: exit 3, with a log file."""

    family = "internal"
    exit_code = 3


@contextmanager
def ungrouped() -> Iterator[None]:
    """Raise the first of our own errors in place of a group that holds nothing else.

    The group is an accident of our task groups; a caller who catches `EnvironmentFault` must get one.
    """
    try:
        yield
    except BaseExceptionGroup as group:
        ours, rest = group.split(CodeflashParallelError)
        if ours is None or rest is not None:
            raise
        raise first_of(ours) from None


def first_of(error: BaseException) -> BaseException:
    """Return the first error in a group and the groups inside it; another error is returned as it is."""
    return first_of(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error
