"""Requests for snapshots, and what their ids depend on."""

from __future__ import annotations

from pathlib import Path

import pytest
from worktree_support import World, request, world

from codeflash_parallel.config.settings import Settings
from codeflash_parallel.workspace.git.git_client import find_repository
from codeflash_parallel.workspace.snapshot.snapshot import SnapshotRequest, no_work_tree, resolve

__all__ = ["world"]


def test_a_request_is_made_of_the_settings_that_it_depends_on() -> None:
    settings = Settings(base="main", include_ignored=("*.so",), accept="judge.py::accept")
    asked = SnapshotRequest.of(settings)
    assert asked == SnapshotRequest(base="main", include_ignored=("*.so",), protected=("judge.py",))
    assert not SnapshotRequest.of(Settings()).protected


def test_a_ref_is_resolved_to_its_commit_and_else_to_nothing(world: World) -> None:
    world.init()
    repository = find_repository(world.root)
    head = world.git("rev-parse", "HEAD")
    assert resolve(repository, "main") == resolve(repository, head[:10]) == head
    assert resolve(repository, "nowhere") == resolve(repository, "--help") == ""


def test_a_bare_repository_needs_a_base(tmp_path: Path) -> None:
    world = World(tmp_path).init()
    world.git("clone", "-q", "--bare", str(world.root), str(tmp_path / "bare"))
    error = no_work_tree(find_repository(tmp_path / "bare"))
    assert (error.code, "--base" in error.hint) == ("BAD_BASE", True)


@pytest.mark.anyio
async def test_the_same_content_has_the_same_ids(world: World) -> None:
    world.init()
    async with world.mirror() as mirror:
        first, again = await mirror.snapshot(request()), await mirror.snapshot(request())
        assert first == again
        assert first.base == world.git("rev-parse", "HEAD")
        assert not first.extra_tests
