"""What is found when slots come back: changed and new files of the tree, and what was done to the mirror."""

from __future__ import annotations

import pytest
from worktree_support import World, edit, request, world

__all__ = ["world"]
pytestmark = pytest.mark.anyio


async def test_a_trace_tells_what_was_changed_and_what_is_new(world: World) -> None:
    world.init({"a.py": "a", "b.py": "b", "gone.py": "g"})
    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request())
        async with world.pool(mirror, snapshot, size=1) as pool:
            async with pool.acquire() as slot:
                await slot.stage([edit(mirror, snapshot, "a.py", b"new a")])
                trace, root = slot.trace, slot.workspace.root
                (root / "b.py").write_bytes(b"by a test")
                (root / "gone.py").unlink()
                (root / "conftest.py").write_bytes(b"")
                (root / "__pycache__").mkdir()
                (root / "__pycache__/b.cpython-311.pyc").write_bytes(b"")
            assert (trace.changed, trace.added, trace.mirror) == (("b.py", "gone.py"), ("conftest.py",), ())
            async with pool.acquire() as slot:
                await slot.stage([edit(mirror, snapshot, "a.py", b"new a")])
                trace = slot.trace
                (root / "a.py").write_bytes(b"swapped while it ran")
            assert (trace.changed, trace.added) == (("a.py",), ())
            async with pool.acquire() as slot:
                await slot.stage([edit(mirror, snapshot, "a.py", b"new a")])
                trace = slot.trace
            assert (trace.changed, trace.added, trace.mirror) == ((), (), ())


async def test_whoever_held_a_slot_may_have_changed_the_mirror(world: World) -> None:
    world.init({"a.py": "a"})
    async with world.mirror() as mirror:
        git_dir = mirror.home.mirror
        async with world.pool(mirror, await mirror.snapshot(request()), size=2) as pool:
            async with pool.acquire() as one, pool.acquire() as two:
                traces = (one.trace, two.trace)
                (git_dir / "hooks").mkdir()
                (git_dir / "hooks/post-checkout").write_bytes(b"#!/bin/sh\n")
                (git_dir / "refs/stash").write_bytes(b"0" * 40)
                (git_dir / "shallow").write_bytes(b"")
            wrong = {"hooks", "shallow", "refs/stash"}
            assert [set(trace.mirror) for trace in traces] == [wrong, wrong]
            assert not any((git_dir / name).exists() for name in wrong)
            async with pool.acquire() as one:
                trace = one.trace
            assert trace.mirror == ()
