"""Faults as callers see them: a full disk as the machine's, one error instead of a task group's."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from codeflash_parallel.result.errors import CodeflashParallelError
from codeflash_parallel.workspace.cache_layout import cache_faults

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


@contextlib.contextmanager
def disk_faults(cache: Path) -> Iterator[None]:
    """Turn errors of a full disk into one clear line; all others pass.

    Raises:
        EnvironmentFault: `DISK_FULL`.
    """
    try:
        yield
    except OSError as error:
        if not is_full(error):
            raise
        _raise_fault(error, cache)
    except BaseExceptionGroup as group:
        full, rest = group.split(is_full)
        if full is None or rest is not None:
            raise
        _raise_fault(first_of(full), cache)


@contextlib.contextmanager
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


def is_full(error: BaseException) -> bool:
    """Say whether an error is that of a full disk."""
    return isinstance(error, OSError) and error.errno in _FULL


def _raise_fault(error: BaseException, cache: Path) -> NoReturn:
    with cache_faults(cache):
        raise error
    raise AssertionError(error)  # pragma: no cover - the line above always raises


def first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first error in a group that is an accident of our task groups."""
    inner = group.exceptions[0]
    return first_of(inner) if isinstance(inner, BaseExceptionGroup) else inner
