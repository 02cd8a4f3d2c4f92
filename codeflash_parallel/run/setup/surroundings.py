"""Surroundings of an open evaluator that may change while it is open: variables, interpreter, packages."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from codeflash_parallel.config.environment import identity
from codeflash_parallel.config.settings_table import PREFIX
from codeflash_parallel.run.setup.evaluator_setup import Setup
from codeflash_parallel.run.setup.project_interpreter import (
    choose_interpreter,
    environment_stamp,
    site_packages,
)

#: Variables that name a place, or are settings of ours or of git; tests do not see them.
_PLACES = ("HOME", "PATH", "TMPDIR", "TEMP", "TMP", "XDG_", "GIT_", PREFIX)
#: Files of packages that an interpreter loads.
_LOADED = (".py", ".so", ".pth")


class Surroundings(NamedTuple):
    """What an open evaluator does not look at again; it has to be opened anew when one of it has changed.

    Attributes:
        variables: of the environment, those that reach tests or name a place.
        interpreter: the project's Python, and what is installed there.
        packages: digest of the files of these packages.
    """

    variables: tuple[tuple[str, str], ...]
    interpreter: str
    packages: str

    def change_to(self, other: Surroundings) -> str:
        """Return what has changed, one clause; empty: nothing."""
        if self.variables != other.variables:
            names = sorted({name for name, _ in {*self.variables} ^ {*other.variables}})
            return f"other values of {', '.join(names)}"
        if self.interpreter != other.interpreter:
            return "another interpreter, or packages were installed or removed"
        return "" if self.packages == other.packages else "a file of a package has changed"


def surroundings_of(setup: Setup, environment: Mapping[str, str]) -> Surroundings:
    """Return the surroundings of an evaluator as they are now; blocks for the time of a walk over packages.

    Raises:
        UsageError: the interpreter that was asked for is gone.
    """
    root = setup.repository.root
    named = {name: value for name, value in environment.items() if name.startswith(_PLACES)}
    interpreter = choose_interpreter(setup.settings.python, setup.project, root)
    searched = filter(os.path.isabs, environment.get("PYTHONPATH", "").split(os.pathsep))
    folders = [*site_packages(interpreter), *map(Path, searched)]
    return Surroundings(
        variables=tuple(sorted({*identity(environment, setup.settings.pass_env), *named.items()})),
        interpreter=environment_stamp(interpreter),
        packages=packages_digest(folders, root),
    )


def packages_digest(folders: Iterable[Path], root: Path) -> str:
    """Return a text that changes when a file is changed that is imported from folders of packages.

    Editable installs are followed, but those of the project itself: they are part of the snapshot.

    Args:
        root: of the user's repository.
    """
    digest = blake2b(digest_size=16)
    found = list(folders)
    linked = [path for folder in found for path in _linked(folder) if not path.is_relative_to(root)]
    for folder in dict.fromkeys([*found, *linked]):
        for line in sorted(_files(os.fspath(folder))):
            digest.update(os.fsencode(line))
    return digest.hexdigest()


def _linked(folder: Path) -> Iterator[Path]:
    """Yield folders outside that a folder of packages leads to: by `.pth` files, or by editable installs."""
    for path in folder.glob("*.pth"):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("/"):
                yield Path(line.rstrip())
    for path in folder.glob("*.dist-info/direct_url.json"):  # PEP 610
        with suppress(OSError, ValueError, AttributeError):
            about = json.loads(path.read_bytes())
            if about.get("dir_info", {}).get("editable"):
                yield Path(unquote(urlsplit(about["url"]).path))


def _files(folder: str) -> Iterator[str]:
    """Yield a line for each file that may be loaded; folders with a dot are no packages."""
    with suppress(OSError):
        for entry in os.scandir(folder):
            if entry.name.endswith(_LOADED):
                status = entry.stat()
                yield f"{entry.path} {status.st_mtime_ns} {status.st_size}\n"
            elif (
                entry.is_dir(follow_symlinks=False) and "." not in entry.name and entry.name != "__pycache__"
            ):
                yield from _files(entry.path)
