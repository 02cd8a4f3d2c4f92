"""Slots as they are made: their names and environments, and a mirror that was changed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from worktree_support import World, environment_for, request, world

from codeflash_parallel.result.errors import EnvironmentFault
from codeflash_parallel.workspace.slot.slot_factory import SlotFactory, _tree_name

__all__ = ["world"]


@pytest.fixture
def anyio_backend() -> str:
    """Everything here blocks."""
    return "asyncio"


@pytest.mark.parametrize(
    ("root", "name"),
    [("project", "project"), ("a[1]", "tree"), (".hidden", "tree"), ("private", "tree"), ("", "tree")],
)
def test_a_tree_has_the_name_of_the_root_unless_it_would_be_misread(root: str, name: str) -> None:
    assert _tree_name(root) == name


@pytest.mark.anyio
async def test_a_slot_is_the_snapshot_and_has_an_environment_of_its_own(world: World) -> None:
    world.init()
    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request())
        factory = SlotFactory(
            mirror=mirror,
            snapshot=snapshot,
            run_id="run",
            interpreter=Path(sys.executable),
            environment_for=environment_for,
        )
        slot = factory.make(3)
        place = slot.workspace
        assert place.root == factory.folder / "3" / "user"
        assert (place.number, place.environment["SLOT"]) == (3, "3")
        assert (place.root / "README").read_text() == "read\n"
        assert factory.can_share() in {True, False}
        again = factory.make_again(3)
        assert again.workspace.root == factory.folder / "3.1" / "user"
        for made in (slot, again):
            factory.remove(made)
        factory.folder.rmdir()


@pytest.mark.anyio
async def test_a_slot_of_a_changed_mirror_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.init()
    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request())
        factory = SlotFactory(
            mirror=mirror,
            snapshot=snapshot,
            run_id="run",
            interpreter=Path(sys.executable),
            environment_for=environment_for,
        )
        monkeypatch.setattr("codeflash_parallel.workspace.slot.slot_factory._holds", lambda *_: False)
        with pytest.raises(EnvironmentFault) as caught:
            factory.make_again(1)
        assert caught.value.code == "MIRROR_DAMAGED"
        assert list(factory.folder.iterdir()) == []
        factory.folder.rmdir()
