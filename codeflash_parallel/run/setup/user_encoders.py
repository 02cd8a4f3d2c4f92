"""The user's encoders: found, and copied to where no candidate can change them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from codeflash_parallel.process.atomic_file import write_once
from codeflash_parallel.result.candidate_model import digest_of
from codeflash_parallel.result.errors import UsageError


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
    places = [place for root in _roots(project, interpreter) for place in _files_of(root, module)]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise UsageError(
            "BAD_SETTING",
            f"There is no module {module} for the encoder {encoder}: neither in the project, nor among the "
            f"packages of {interpreter}.",
            "Name its file, as path.py::name.",
        )
    return found, name


def _roots(project: Path, interpreter: Path) -> Iterator[Path]:
    """Yield the folders that hold modules. None is imported to find out: what it does is its own affair."""
    yield from (project, project / "src")
    for home in dict.fromkeys([interpreter.parent.parent, interpreter.resolve().parent.parent]):
        yield from sorted(home.glob("lib*/python*/site-packages"))


def _files_of(root: Path, module: str) -> tuple[Path, Path]:
    place = root.joinpath(*module.split("."))
    return place.with_name(f"{place.name}.py"), place / "__init__.py"
