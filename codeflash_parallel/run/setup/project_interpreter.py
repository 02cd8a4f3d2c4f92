"""The interpreter that runs the project's tests, its packages, and the user's encoders in them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from codeflash_parallel.process.files import write_once
from codeflash_parallel.result.candidate_model import digest_of
from codeflash_parallel.result.errors import UsageError

#: Where a repository keeps its own environment, in the order of looking.
_ENVIRONMENTS = (".venv", "venv")


def choose_interpreter(asked: str, project: Path, repository: Path) -> Path:
    """Return the project's Python: the one asked for, else the repository's environment, else ours.

    The path is made absolute but its links are kept: a virtual environment's Python *is* a link.

    Raises:
        UsageError: `BAD_PYTHON`: what was asked for is not an executable file.
    """
    if asked:
        import shutil

        found = shutil.which(os.path.expanduser(asked))  # noqa: PTH111 - `asked` may be a bare command name
        if found is None:
            raise UsageError(
                "BAD_PYTHON",
                f"--python {asked!r} is no executable.",
                "Give the path of a Python interpreter.",
            )
        return Path(found).absolute()
    for folder in (project, repository):
        for name in _ENVIRONMENTS:
            python = folder / name / "bin" / "python"
            if os.access(python, os.X_OK):
                return python.absolute()
    return Path(sys.executable).absolute()


def environment_stamp(interpreter: Path) -> str:
    """Return a text that changes when packages are installed into or removed from an interpreter.

    It names the interpreter's own file and the modification times of its site-packages folders: cheap, and
    good enough for a cache key (an edited file inside an installed package is not noticed).
    """
    sites = list(site_packages(interpreter))
    files = [interpreter, *sites, *(path for site in sites for path in sorted(site.glob("*.pth")))]
    return "\n".join([str(interpreter.resolve()), *(f"{path}:{_mtime_ns(path)}" for path in files)])


def site_packages(interpreter: Path) -> Iterator[Path]:
    """Yield the folders of an interpreter's packages, those of the one behind a virtual environment too."""
    for home in dict.fromkeys([interpreter.parent.parent, interpreter.resolve().parent.parent]):
        yield from sorted(home.glob("lib*/python*/site-packages"))


def _mtime_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def copied_encoders(
    encoders: Iterable[str], project: Path, interpreter: Path, folder: Path
) -> tuple[tuple[str, str], ...]:
    """Copy encoders; return the file and the name of each function.

    Args:
        encoders: ``path.py::name``, relative to the project, or ``module:name``, of the project or of the
            packages of its interpreter.
        project: folder of the user's project.
        interpreter: its Python.
        folder: where copies are kept; their names are their digests.

    Raises:
        UsageError: `BAD_SETTING`: one cannot be found or read.
    """
    found = []
    for encoder in encoders:
        path, name = _place(encoder, project, interpreter)
        try:
            text = path.read_bytes()
        except OSError as error:
            raise UsageError("BAD_SETTING", f"The encoder {path} cannot be read: {error}.") from error
        copy = folder / f"encoder_{digest_of(text)[:16]}.py"
        copy.parent.mkdir(parents=True, exist_ok=True)
        write_once(copy, text)
        found.append((str(copy), name))
    return tuple(found)


def _place(encoder: str, project: Path, interpreter: Path) -> tuple[Path, str]:
    if "::" in encoder:
        path, _, name = encoder.partition("::")
        return project / path, name
    module, _, name = encoder.partition(":")
    # None is imported to find out: what a module does is its own affair.
    roots = [project, project / "src", *site_packages(interpreter)]
    places = [place for root in roots for place in _files_of(root, module)]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise UsageError(
            "BAD_SETTING",
            f"There is no module {module} for the encoder {encoder}: neither in the project, nor among the "
            f"packages of {interpreter}.",
            "Name its file, as path.py::name.",
        )
    return found, name


def _files_of(root: Path, module: str) -> tuple[Path, Path]:
    place = root.joinpath(*module.split("."))
    return place.with_name(f"{place.name}.py"), place / "__init__.py"
