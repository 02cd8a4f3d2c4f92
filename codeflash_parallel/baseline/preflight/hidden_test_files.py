"""Which files of a snapshot are tests, so that calls can be made again where none of them is. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import PurePosixPath

#: Names of folders that hold tests and what they need.
_FOLDERS = frozenset({"test", "tests", "testing"})


def absences(
    files: Collection[str], asked: Iterable[str], rootdir: str, needed: Collection[str]
) -> tuple[tuple[str, ...], ...]:
    """Return what replays may do without, the most first: whole folders of tests; the files of tests alone.

    Args:
        files: of the snapshot.
        asked: ids of tests.
        rootdir: pytest's, from which these ids count, relative to the snapshot's root.
        needed: files that must stay: those of the targets.
    """
    named = {_below(rootdir, test.partition("::")[0]) for test in asked if _is_function(test)}
    tests = sorted(path for path in files if (_has_test_name(path) or path in named) and path not in needed)
    folders = {folder for path in files if (folder := _folder_of_tests(path))}
    folders = {f for f in folders if not any(path.startswith(f"{f}/") for path in needed)}
    outer = sorted(f for f in folders if not any(f.startswith(f"{other}/") for other in folders))
    alone = [path for path in tests if not any(path.startswith(f"{folder}/") for folder in outer)]
    found = ((*outer, *alone), tuple(tests))
    return tuple(dict.fromkeys(paths for paths in found if paths))


def _folder_of_tests(path: str) -> str:
    """Return the outermost folder of tests above a path; empty if there is none."""
    parts = path.split("/")[:-1]
    return next(("/".join(parts[: n + 1]) for n, part in enumerate(parts) if part in _FOLDERS), "")


def _has_test_name(path: str) -> bool:
    name = PurePosixPath(path).name
    is_test = name.startswith("test_") or name.endswith("_test.py") or name == "conftest.py"
    return is_test and name.endswith(".py")


def _is_function(test: str) -> bool:
    """Say whether a test is a function in a file of tests, and no example in the documentation of code."""
    return any(part.startswith(("test", "Test")) for part in test.split("::")[1:])


def _below(rootdir: str, path: str) -> str:
    return path if rootdir in {"", "."} else f"{rootdir}/{path}"
