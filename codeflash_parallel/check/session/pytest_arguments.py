"""Build pytest's command line. Pure. The guest neutralises what breaks us in the project's own options."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, kw_only=True, slots=True)
class TestRequest:
    """Which tests were asked for.

    Attributes:
        paths: files, folders or ids, relative to the project folder; empty: the configured `testpaths`.
        keyword, marker: pytest's ``-k`` and ``-m``.
    """

    # Not a test: pytest must not collect it where it is imported.
    __test__: ClassVar[bool] = False

    paths: tuple[str, ...] = ()
    keyword: str = ""
    marker: str = ""


def first_arguments(request: TestRequest) -> tuple[str, ...]:
    """Return the arguments of the first baseline run: what was asked for, as the project has it."""
    return (*_expressions(request), *request.paths)


def selected_arguments(
    request: TestRequest, *, rootdir: str, inifile: str, selected: Sequence[str]
) -> tuple[str, ...]:
    """Return the arguments of a run of some tests: their files, under the first run's root and configuration.

    Only the files that hold selected tests are collected; the guest deselects the rest of each file. With
    other paths pytest might find another root or configuration, so both are given.
    """
    where = [f"--rootdir={rootdir}"] if rootdir else []
    where += ["-c", inifile] if inifile else []
    return (*where, *_expressions(request), *test_files(selected, rootdir))


def _expressions(request: TestRequest) -> tuple[str, ...]:
    keyword = ("-k", request.keyword) if request.keyword else ()
    marker = ("-m", request.marker) if request.marker else ()
    return (*keyword, *marker)


def test_files(ids: Iterable[str], rootdir: str) -> tuple[str, ...]:
    """Return the files of some test ids, absolute, in order, each once."""
    return tuple(dict.fromkeys(f"{rootdir}/{test.partition('::')[0]}" for test in ids))
