from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from harness import (
    Fixture,
    Place,
    commit_all,
    copy_tree,
    git,
    load_fixture,
    make_place,
    make_venv,
    pip_install,
)

Builder = Callable[[str | Fixture], Place]


@pytest.fixture
def build(tmp_path: Path) -> Builder:
    """Return a function that makes a user's repository of a fixture."""

    def built(fixture: str | Fixture) -> Place:
        found = load_fixture(fixture) if isinstance(fixture, str) else fixture
        return build_repository(found, tmp_path / "user")

    return built


@pytest.fixture(scope="session")
def build_once(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    """Return a function like `build`'s, of whose repositories and caches all tests of a process make use.

    None of them may change the repository.
    """
    made: dict[str, Place] = {}

    def built(fixture: str | Fixture) -> Place:
        found = load_fixture(fixture) if isinstance(fixture, str) else fixture
        if found.name not in made:
            made[found.name] = build_repository(found, tmp_path_factory.mktemp("shared") / "user")
        return made[found.name]

    return built


def build_repository(fixture: Fixture, folder: Path) -> Place:
    """Make a repository of a fixture's project, with the surroundings that its expectations ask for."""
    expected = fixture.expected
    place = make_place(folder, **expected.get("environment", {}))
    copy_tree(fixture.folder / "project", place.repository)
    venv = _environment(expected.get("venv", ""), place)
    commit_all(place.repository)
    if "submodule" in expected:
        _add_submodule(fixture, place, expected["submodule"])
    if (fixture.folder / "working_tree").is_dir():
        copy_tree(fixture.folder / "working_tree", place.repository)
    for path in expected.get("remove", ()):
        (place.repository / path).unlink()
    return replace(place, cwd=place.repository / expected.get("subfolder", "."), venv=venv)


def _environment(kind: str, place: Place) -> Path | None:
    match kind:
        case "":
            return None
        case "in-tree":
            return make_venv(place.repository / ".venv")
        case "editable":
            venv = make_venv(place.repository.parent / "venv")
            pip_install(venv, "-e", str(place.repository))
            shutil.rmtree(place.repository / "build", ignore_errors=True)
            return venv
        case _:
            raise ValueError(kind)


def _add_submodule(fixture: Fixture, place: Place, path: str) -> None:
    library = place.repository.parent / "library"
    copy_tree(fixture.folder / "submodule", library)
    commit_all(library)
    git(place.repository, "submodule", "--quiet", "add", str(library), path)
    commit_all(place.repository, "with a submodule")
