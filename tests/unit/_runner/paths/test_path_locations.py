"""Paths of the user's checkout, of the slot, and of the environment."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from codeflash_parallel._runner.paths.path_locations import PathLocations, both_forms, environment, under


@pytest.fixture
def places(tmp_path: Path) -> PathLocations:
    for name in ("user/pkg", "slot/pkg", "private", "runner"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "user")
    keys = {"root": "slot", "user_root": "user", "runner": "runner", "private": "private"}
    return PathLocations({key: str(tmp_path / name) for key, name in keys.items()})


def test_paths_of_the_checkout_are_mapped_to_the_slot(places: PathLocations, tmp_path: Path) -> None:
    slot = str(tmp_path / "slot")
    assert places.mapped(str(tmp_path / "user/pkg/a.py")) == f"{slot}/pkg/a.py"
    assert places.mapped(str(tmp_path / "link/pkg/a.py")) == f"{slot}/pkg/a.py"
    assert places.mapped(str(tmp_path / "user")) == slot
    for other in (f"{slot}/pkg/a.py", "relative/a.py", None, str(tmp_path / "user2/a.py")):
        assert places.mapped(other) is None


def test_packages_beside_the_sources_are_another_environment(places: PathLocations, tmp_path: Path) -> None:
    assert places.mapped(str(tmp_path / "user/.venv/lib/site-packages/a.py")) is None


def test_paths_of_the_slot(places: PathLocations, tmp_path: Path) -> None:
    path = str(tmp_path / "slot/pkg/a.py")
    assert places.relative(path) == "pkg/a.py"
    assert places.users(path) == str(tmp_path / "user/pkg/a.py")
    assert places.in_tree(path)
    assert places.relative(str(tmp_path / "slot")) is None
    assert not places.in_tree(str(tmp_path / "user/pkg/a.py"))


def test_a_prefix_around_the_checkout_is_not_the_environment(tmp_path: Path) -> None:
    assert any(under(sys.prefix, folder) for folder in environment([str(tmp_path)]))
    assert sys.prefix not in environment([str(Path(sys.prefix) / "src/project")])


def test_both_forms_of_a_path(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert both_forms(str(tmp_path / "link")) == [str(tmp_path / "link"), str(tmp_path / "real")]
    assert both_forms(str(tmp_path / "real")) == [str(tmp_path / "real")]
