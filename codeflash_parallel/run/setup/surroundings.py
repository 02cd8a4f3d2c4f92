"""Surroundings of an open evaluator that may change while it is open: variables, interpreter, packages."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
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
from codeflash_parallel.sandbox.level_probe import secrets_of

#: Variables that name a place, or are settings of ours or of git; tests do not see them.
_PLACES = ("HOME", "PATH", "TMPDIR", "TEMP", "TMP", "XDG_", "GIT_", PREFIX)
#: Files of packages that an interpreter loads.
_LOADED = (".py", ".so", ".pth")


class Surroundings(NamedTuple):
    """State that an open evaluator does not look at again: where it has changed, it has to be opened anew.

    Attributes:
        variables: of the environment, those that reach tests or name a place.
        interpreter: the project's Python, and what is installed there.
        packages: digest of the files of these packages.
        secrets: places that are hidden from tests.
    """

    variables: tuple[tuple[str, str], ...]
    interpreter: str
    packages: int
    secrets: tuple[str, ...]

    def change_to(self, other: Surroundings) -> str:
        """Return what has changed, one clause; empty: nothing."""
        if self.variables != other.variables:
            names = sorted({name for name, _ in {*self.variables} ^ {*other.variables}})
            return f"other values of {', '.join(names)}"
        if self.interpreter != other.interpreter:
            return "another interpreter, or packages were installed or removed"
        if self.secrets != other.secrets:
            return "secrets to be hidden were added or removed"
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
    folders = [*_seen_packages(interpreter), *map(Path, searched)]
    return Surroundings(
        variables=tuple(sorted({*identity(environment, setup.settings.pass_env), *named.items()})),
        interpreter=environment_stamp(interpreter),
        packages=digest_of_packages(folders, root),
        secrets=secrets_of(environment),
    )


def digest_of_packages(folders: Iterable[Path], root: Path) -> int:
    """Return a number that changes when a file is changed that is imported from folders of packages.

    Editable installs are followed, but those of the project itself: they are part of the snapshot. Numbers of
    one process can be compared. It takes some 9 µs a file.

    Args:
        root: of the user's repository.
    """
    found = [folder.resolve() for folder in folders]
    linked = [path for folder in found for path in _linked(folder) if not path.is_relative_to(root)]
    seen = dict.fromkeys(map(os.fspath, [*found, *linked]))
    total, pending = 0, list(seen)
    while pending:
        with suppress(OSError):
            for entry in os.scandir(pending.pop()):
                if entry.name.endswith(_LOADED):
                    status = entry.stat()
                    total += hash((entry.path, status.st_mtime_ns, status.st_size))
                # A folder with a dot in its name is no package.
                elif "." not in entry.name and entry.name != "__pycache__" and entry.is_dir():
                    place = os.path.realpath(entry.path) if entry.is_symlink() else entry.path
                    if not entry.is_symlink() or place not in seen:  # links may lead in circles
                        seen[place] = None
                        pending.append(place)
    return total


def _seen_packages(interpreter: Path) -> Iterator[Path]:
    """Yield the folders of packages that an interpreter imports from."""
    home = interpreter.parent.parent
    with suppress(OSError):
        text = (home / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace")
        if not re.search(r"^include-system-site-packages\s*=\s*true", text, re.MULTILINE | re.IGNORECASE):
            yield from (path for path in site_packages(interpreter) if path.is_relative_to(home))
            return
    yield from site_packages(interpreter)


def _linked(folder: Path) -> Iterator[Path]:
    """Yield folders outside that a folder of packages leads to: by `.pth` files, or by editable installs."""
    for path in folder.glob("*.pth"):
        with suppress(OSError):
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
            yield from (Path(line.rstrip()).resolve() for line in lines if line.startswith("/"))
    for path in folder.glob("*.dist-info/direct_url.json"):  # PEP 610
        with suppress(OSError, ValueError, AttributeError):
            about = json.loads(path.read_bytes())
            if about.get("dir_info", {}).get("editable"):
                yield Path(unquote(urlsplit(about["url"]).path)).resolve()
