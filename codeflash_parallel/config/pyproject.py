"""`pyproject.toml`: where it lies, and our table in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from codeflash_parallel.result.errors import UsageError

#: The table of `pyproject.toml` that is ours.
TABLE = "codeflash-parallel"

#: A table in it: the settings of the evaluation queue, see `queue_config`.
QUEUE_TABLE = "queue"


def find_table(project: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield the nearest `pyproject.toml` that has our table, and the table; nothing where there is none.

    Raises:
        UsageError: `NO_PROJECT`, `BAD_CONFIG`.
    """
    for folder in _folders(project):
        path = folder / "pyproject.toml"
        table = _table(path)
        if table is not None:
            yield path, table
            return


def must_be_there(project: Path) -> None:
    """Refuse a project that is not there; who needs its repository is told by that it has none.

    Raises:
        UsageError: `NO_PROJECT`.
    """
    if not project.exists():
        hint = "Name its folder by --project."
        raise UsageError("NO_PROJECT", f"The project {project} does not exist.", hint)


def _folders(project: Path) -> list[Path]:
    """Return where `pyproject.toml` may lie, the nearest folder first.

    Raises:
        UsageError: `NO_PROJECT`, the folder cannot be looked at.
    """
    try:
        return list(_up_to_repository_root(project.resolve()))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(
            "NO_PROJECT",
            f"The project {project} cannot be looked at: {why}.",
            "Name its folder by --project.",
        ) from error


def _up_to_repository_root(folder: Path) -> Iterator[Path]:
    """Yield a folder and its parents up to the one that holds `.git`; outside a repository only itself."""
    chain = [folder, *folder.parents]
    root = next((place for place, parent in enumerate(chain) if (parent / ".git").exists()), 0)
    yield from chain[: root + 1]


def _table(path: Path) -> Mapping[str, Any] | None:
    """Return our table of a file; `None`: it has none, or is not there.

    Raises:
        UsageError: `BAD_CONFIG`.
    """
    try:
        if not path.exists():
            return None
        import tomllib

        table: Any = tomllib.loads(path.read_bytes().decode("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError("BAD_CONFIG", f"{path} cannot be read: {error}.") from error
    for name, title in (("tool", "tool"), (TABLE, f"tool.{TABLE}")):
        if (table := table.get(name)) is None:
            return None
        if not isinstance(table, dict):
            raise UsageError("BAD_CONFIG", f"{path}: {title} must be a table.")
    found: Mapping[str, Any] = table
    return found
