"""Which evaluators are kept, and for how long; the evaluators themselves only pretend."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Self

import anyio
import anyio.lowlevel
import pytest

from codeflash_parallel.config.settings import Settings
from codeflash_parallel.result.errors import EnvironmentFault, UsageError
from codeflash_parallel.run import kept_evaluators
from codeflash_parallel.run.kept_evaluators import EvaluatorThread, KeptEvaluators
from codeflash_parallel.run.setup.surroundings import Surroundings

GIB = 1 << 30


@dataclass
class World:
    """Everything that pretended evaluators do and see."""

    done: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    around: Surroundings = field(default_factory=lambda: Surroundings((), "", 0, ()))
    memory_bytes: int = 0

    def make(self, project: Path, settings: Settings) -> Pretended:
        if settings.base == "bad":
            raise UsageError("BAD", "It is bad.")
        return Pretended(self, project.name, opens=settings.base != "closed")

    def kept(self) -> KeptEvaluators:
        return KeptEvaluators(self.make, self.notes.append)  # type: ignore[arg-type, return-value]


@dataclass
class Pretended:
    world: World
    name: str
    opens: bool
    was_interrupted: bool = False

    async def __aenter__(self) -> Self:
        await anyio.lowlevel.checkpoint()
        if not self.opens:
            raise EnvironmentFault("UNFIT", "It is unfit.")
        self.world.done.append(f"open {self.name}")
        return self

    async def __aexit__(self, *_error: object) -> None:
        self.world.done.append(f"close {self.name}")

    def surroundings(self) -> Surroundings:
        return self.world.around

    @property
    def memory_bytes(self) -> int:
        return self.world.memory_bytes


pytestmark = pytest.mark.anyio


async def use(kept: KeptEvaluators, name: str, settings: Settings | None = None) -> None:
    async with kept.lend(Path(name), settings or Settings()):
        pass


async def test_one_place_has_one_evaluator_until_it_changes() -> None:
    world = World()
    async with world.kept() as kept:
        await use(kept, "a")
        await use(kept, "a")
        assert world.done == ["open a"]
        await use(kept, "a", Settings(seed=1))
        assert "other settings" in world.notes[-1]
        world.around = world.around._replace(packages=1)
        await use(kept, "a")
        assert world.notes[-1].endswith("anew: a file of a package has changed")
        await anyio.wait_all_tasks_blocked()
        assert world.done.count("close a") == 1
    assert world.done.count("open a") == world.done.count("close a") == 3


async def test_the_ones_used_last_are_kept() -> None:
    world = World()
    async with world.kept() as kept:
        for name in "abcad":
            await use(kept, name)
        await anyio.wait_all_tasks_blocked()
        assert [line for line in world.done if "close" in line] == ["close b"]
        await use(kept, "a")
        assert world.done.count("open a") == 1


async def test_what_was_interrupted_or_failed_is_not_kept() -> None:
    world = World()
    async with world.kept() as kept:
        with pytest.raises(RuntimeError):
            async with kept.lend(Path("a"), Settings()):
                raise RuntimeError
        async with kept.lend(Path("b"), Settings()) as evaluator:
            evaluator.was_interrupted = True
        with pytest.raises(EnvironmentFault):  # the project's fault: it may be repaired
            async with kept.lend(Path("c"), Settings()):
                raise EnvironmentFault("RED_BASELINE", "It is red.")
        with pytest.raises(EnvironmentFault):  # its own: the next one may have slots again
            async with kept.lend(Path("d"), Settings()):
                raise EnvironmentFault("NO_SLOT", "None is left.")
        await anyio.wait_all_tasks_blocked()
        assert sorted(line for line in world.done if "close" in line) == ["close a", "close b", "close d"]


async def test_what_cannot_be_opened_is_said_each_time() -> None:
    world = World()
    async with world.kept() as kept:
        for _ in range(2):
            with pytest.raises(EnvironmentFault):
                await use(kept, "a", Settings(base="closed"))
            with pytest.raises(UsageError):
                await use(kept, "a", Settings(base="bad"))
    assert world.done == []


async def test_two_calls_at_once_share_one_and_it_is_closed_after_both() -> None:
    world = World()
    async with world.kept() as kept, kept.lend(Path("a"), Settings()) as first:
        async with kept.lend(Path("a"), Settings()) as second:
            assert first is second
            second.was_interrupted = True
        await anyio.wait_all_tasks_blocked()
        assert world.done == ["open a"]
    assert world.done == ["open a", "close a"]


async def test_idle_ones_and_those_that_hold_too_much_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(memory_bytes=1 * GIB)
    monkeypatch.setattr(kept_evaluators, "read_machine", lambda: SimpleNamespace(memory_bytes=4 * GIB))
    async with world.kept() as kept:
        await use(kept, "a")
        await use(kept, "b")
        await kept.trim()  # a quarter of 4 + 2 GiB
        await anyio.wait_all_tasks_blocked()
        assert world.done[2:] == ["close a"]
        monkeypatch.setattr(kept_evaluators, "IDLE_S", 0.0)
        await anyio.sleep(0.01)
        await kept.trim()
        await anyio.wait_all_tasks_blocked()
        assert world.done[3:] == ["close b"]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_thread_keeps_them_between_calls(backend: str) -> None:
    world = World()
    thread = EvaluatorThread(world.make, backend=backend)  # type: ignore[arg-type]
    for _ in range(2):
        thread.run(lambda: use(thread, "a"))  # type: ignore[arg-type]
    assert world.done == ["open a"]
    with pytest.raises(UsageError):
        thread.run(lambda: use(thread, "a", Settings(base="bad")))  # type: ignore[arg-type]
    thread.trim()
    for _ in range(2):
        thread.close()
    assert world.done == ["open a", "close a"]


PROGRAM = """
import os, signal, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in what a shell starts in the background
from codeflash_parallel.run.kept_evaluators import library_thread
thread = library_thread(None, "asyncio")
assert library_thread(None, "asyncio") is thread
import anyio
thread.run(lambda: anyio.to_thread.run_sync(time.sleep, 0))
if os.fork() == 0:
    assert library_thread(None, "asyncio") is not thread
    os._exit(0)
assert os.wait()[1] == 0
async def work():
    threading.Timer(0.2, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)).start()
    try:
        await anyio.sleep(60)
    finally:
        print("cancelled", flush=True)
try:
    thread.run(work)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_a_program_ends_although_it_keeps_some() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert done.stdout.split() == ["cancelled", "interrupted"]
