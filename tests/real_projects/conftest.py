from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from harness import Place, commit_all, make_place, make_venv, pip_install
from real_project import Project

Builder = Callable[[Project], Place]


@pytest.fixture(scope="session")
def sdists(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Project], Path]:
    """Return a function that finds, or downloads once a session, a project's source distribution."""
    named = os.environ.get("CODEFLASH_PARALLEL_SDISTS", "")
    folder = Path(named) if named else tmp_path_factory.mktemp("sdists")

    def find(project: Project) -> Path:
        return _stored(folder, project) or _download(folder, project)

    return find


def _stored(folder: Path, project: Project) -> Path | None:
    distribution, version = project.expected["distribution"], project.expected["version"]
    names = {distribution, distribution.replace("-", "_")}
    return next((p for n in names if (p := folder / f"{n}-{version}.tar.gz").is_file()), None)


def _download(folder: Path, project: Project) -> Path:
    name = project.expected["distribution"]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "--no-deps",
            "--no-binary",
            name,
            "-d",
            folder,
            project.pin,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    found = _stored(folder, project)
    if found is None:
        pytest.skip(f"pip download {project.pin}: {done.stderr.strip()[-400:]}")
    return found


@pytest.fixture
def build(tmp_path: Path, sdists: Callable[[Project], Path]) -> Builder:
    """Return a function that makes a user's repository of a project's source distribution."""

    def built(project: Project) -> Place:
        place = make_place(tmp_path / "user")
        _unpack(sdists(project), place.repository)
        commit_all(place.repository, project.pin)
        if project.expected.get("editable"):
            venv = make_venv(tmp_path / "user" / "venv")
            pip_install(venv, "-e", str(place.repository))
            return replace(place, venv=venv)
        return place

    return built


def _unpack(sdist: Path, target: Path) -> None:
    """Unpack without the archive's own top folder."""
    with tarfile.open(sdist) as archive:
        for member in archive.getmembers():
            _, _, inner = member.name.partition("/")
            if inner and (member.isfile() or member.isdir()):
                archive.extract(member.replace(name=inner), target, filter="data")
