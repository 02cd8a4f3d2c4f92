"""Rules for the paths that a candidate may touch: the first gate. Pure: path names in, reasons out."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

#: Names that decide what is a test, or what a test means.
_TEST_FILES = ("test_*.py", "*_test.py", "conftest.py")
_TEST_FOLDERS = frozenset({"tests", "test"})
#: Files that configure the test run or the installation.
_CONFIGURATION = frozenset(
    {
        *("pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "pyproject.toml", "tox.ini"),
        *("setup.cfg", "setup.py", ".coveragerc", "noxfile.py"),
    }
)
#: Modules that Python runs at its start by itself.
_STARTUP = frozenset({"sitecustomize.py", "usercustomize.py"})
#: Names of files that cannot be reviewed as text.
_BINARY = re.compile(r".*\.(so|pyd|dll|dylib|a|o|pyc|pyo|pth|egg|whl|so\..*)", re.DOTALL)
#: Top-level modules that, if shadowed, would put a candidate in charge of its own judgement.
_RESERVED = frozenset(
    {
        *("pytest", "_pytest", "pluggy", "iniconfig", "xdist", "execnet", "hypothesis", "coverage", "py"),
        *("exceptiongroup", "tomli", "colorama", "pygments", "packaging"),
        *("line_profiler", "_codeflash_runner"),
    }
)
_LONGEST_NAME_BYTES = 255


def refuse_form(path: str) -> str:
    """Return why a path can be nobody's edit; empty when its form is fine."""
    return next(_form_faults(path), "")


def _form_faults(path: str) -> Iterator[str]:
    parts = path.split("/")
    if not path or path.startswith("/"):
        yield "the path is empty or absolute"
    if any(ord(char) < 32 or ord(char) == 127 for char in path):  # noqa: PLR2004 - ASCII's control characters
        yield "the path holds a control character"
    if any(part in {"", ".", ".."} for part in parts):
        yield "the path leaves its folder or is not in its simplest form"
    if "\\" in path:
        yield "the path holds a backslash"
    if any(part.casefold().startswith(".git") for part in parts):
        yield "it belongs to git"
    if any("\ud800" <= char <= "\udfff" and not "\udc80" <= char <= "\udcff" for char in path):
        yield "the path is not valid text"
    elif any(len(part.encode("utf-8", "surrogateescape")) > _LONGEST_NAME_BYTES for part in parts):
        yield "a name in it is too long"


def refuse_path(path: str, *, protected: Sequence[str] = ()) -> str:
    """Return why a candidate may not touch a path; empty when it may.

    Args:
        path: POSIX, relative to the root of the repository.
        protected: paths, and folders with a final slash, that this run protects.
    """
    return next(_form_faults(path), "") or next(_meaning_faults(path, protected), "")


def _meaning_faults(path: str, protected: Sequence[str]) -> Iterator[str]:
    *folders, name = path.split("/")
    if any(path == p or (p.endswith("/") and path.startswith(p)) for p in protected):
        yield "it belongs to the run's own tests"
    if any(fnmatchcase(name, pattern) for pattern in _TEST_FILES) or _TEST_FOLDERS.intersection(folders):
        yield "it belongs to the tests"
    if name in _CONFIGURATION:
        yield "it configures the tests or the installation"
    if name in _STARTUP:
        yield "Python runs it at its start"
    if _BINARY.fullmatch(name) or "__pycache__" in folders:
        yield "it is not source text"


def refuse_new(path: str, existing: Collection[str]) -> str:
    """Return why a path may not be added to a tree; empty when it may.

    Args:
        existing: every path of the tree, the candidate's other new ones included.
    """
    top = _top_module(path, existing)
    if top in sys.stdlib_module_names or top in _RESERVED:
        return f"it would shadow the module {top}"
    return ""


def collisions(new: Iterable[str], existing: Iterable[str]) -> tuple[str, ...]:
    """Return new paths that differ from another only in case or in how Unicode spells them, sorted."""
    known = {_folded(path): path for path in existing}
    found = set()
    for path in sorted(new):
        other = known.setdefault(_folded(path), path)
        if other != path:
            found.add(path)
    return tuple(sorted(found))


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def _top_module(path: str, existing: Collection[str]) -> str:
    """Return the top-level name under which a Python file can be imported; empty for other files."""
    folder, _, name = path.rpartition("/")
    if not name.endswith(".py"):
        return ""
    module = name.removesuffix(".py")
    if module == "__init__":
        folder, _, module = folder.rpartition("/")
    while folder and f"{folder}/__init__.py" in existing:
        folder, _, module = folder.rpartition("/")
    return module
