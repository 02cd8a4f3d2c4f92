"""Who waits for a slot, in which order, and who stops waiting."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest
from worktree_support import World, request, world

from codeflash_parallel.workspace.slot_pool import SlotPool

__all__ = ["world"]
pytestmark = [pytest.mark.anyio, pytest.mark.engine]


async def _visit(pool: SlotPool, name: int, seen: list[int], rounds: int = 1) -> None:
    for _ in range(rounds):
        async with pool.acquire() as slot:
            assert not (slot.workspace.root / "mark").exists()
            (slot.workspace.root / "mark").write_text(str(name))
            await anyio.lowlevel.checkpoint()
            seen.append(name)


async def test_six_visitors_share_two_slots_in_order(world: World) -> None:
    world.init()
    async with world.mirror() as mirror, world.pool(mirror, await mirror.snapshot(request())) as pool:
        seen: list[int] = []
        async with anyio.create_task_group() as group:
            for name in range(6):
                group.start_soon(_visit, pool, name, seen)
        assert sorted(seen) == list(range(6))


async def test_whoever_wants_all_slots_gets_them_and_starves_nobody(world: World) -> None:
    world.init()
    async with world.mirror() as mirror, world.pool(mirror, await mirror.snapshot(request())) as pool:
        seen: list[int] = []

        async def race(name: int) -> None:
            async with pool.acquire_all() as slots:
                assert len(slots) == 2
                seen.append(name)

        async with anyio.create_task_group() as group:
            for name in range(4):
                group.start_soon(_visit, pool, name, seen, 2)
                group.start_soon(race, 100 + name)
        assert len(seen) == 12


async def test_nobody_overtakes_one_who_waits_for_all(world: World) -> None:
    world.init()
    async with world.mirror() as mirror, world.pool(mirror, await mirror.snapshot(request())) as pool:
        order: list[str] = []

        async def take(name: str, how: Callable[[], object]) -> None:
            async with how():  # type: ignore[attr-defined]
                order.append(name)

        async with anyio.create_task_group() as group, pool.acquire():
            group.start_soon(take, "all", pool.acquire_all)
            await anyio.wait_all_tasks_blocked()
            group.start_soon(take, "one", pool.acquire)
            await anyio.wait_all_tasks_blocked()
            assert order == []
        assert order == ["all", "one"]


@pytest.mark.parametrize("every", [False, True], ids=["one", "all"])
async def test_a_cancelled_wait_loses_no_slot(world: World, every: bool) -> None:
    world.init()
    async with world.mirror() as mirror, world.pool(mirror, await mirror.snapshot(request())) as pool:
        how = pool.acquire_all if every else pool.acquire

        async def wait(scope: anyio.CancelScope) -> None:
            with scope:
                async with how():
                    pytest.fail("it was cancelled")

        scope = anyio.CancelScope()
        async with anyio.create_task_group() as group, pool.acquire_all():
            group.start_soon(wait, scope)
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
        # Served and cancelled in the same moment: the slot goes back unused.
        scope = anyio.CancelScope()
        scope.cancel()
        await wait(scope)
        async with pool.acquire_all() as slots:
            assert len(slots) == 2


async def test_a_cancelled_or_failing_visit_is_cleaned_up(world: World) -> None:
    world.init()
    async with world.mirror() as mirror, world.pool(mirror, await mirror.snapshot(request()), size=1) as pool:
        with anyio.CancelScope() as scope:
            async with pool.acquire() as slot:
                (slot.workspace.root / "junk").write_bytes(b"")
                scope.cancel()
                await anyio.sleep_forever()
        with pytest.raises(ZeroDivisionError):  # noqa: PT012 - the block is what is tested
            async with pool.acquire() as slot:
                assert not (slot.workspace.root / "junk").exists()
                (slot.workspace.root / "junk").write_bytes(b"")
                raise ZeroDivisionError
        async with pool.acquire() as slot:
            assert not (slot.workspace.root / "junk").exists()


async def test_cancelling_the_opening_leaves_nothing(world: World) -> None:
    world.init()
    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request())
        with anyio.CancelScope() as scope:
            scope.cancel()
            async with world.pool(mirror, snapshot):
                pytest.fail("it was cancelled")
    assert world.left_behind() == []


async def test_more_slots_than_there_are_can_be_held_at_once_and_are_kept_for_the_next_time(
    world: World,
) -> None:
    world.init()
    async with world.mirror() as mirror, world.pool(mirror, await mirror.snapshot(request())) as pool:
        async with pool.acquire_all(at_least=4) as slots:
            assert [slot.number for slot in slots] == [1, 2, 3, 4]
            trees = [slot.workspace.root for slot in slots]
            files = {path.relative_to(trees[0]) for path in trees[0].rglob("*") if path.name != ".git"}
            assert all((tree / file).exists() for tree in trees for file in files)
            traces = [slot.trace for slot in slots]
            (trees[3] / "left behind").write_bytes(b"")
        assert [trace.added for trace in traces] == [(), (), (), ("left behind",)]
        assert pool.size == 2
        async with pool.acquire_all() as slots:
            assert [slot.number for slot in slots] == [1, 2]
        async with pool.acquire_all(at_least=5) as slots:
            assert [slot.workspace.root for slot in slots][:4] == trees
            assert not (trees[3] / "left behind").exists()
        assert pool.size == 2
    assert world.left_behind() == []
