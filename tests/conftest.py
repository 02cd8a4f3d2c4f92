from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from effort import TIMES
from hypothesis import settings
from mounts import READ_ONLY, kept_read_only

# Examples that failed are worth a test of their own; a database on disk is not writable for every user.
# Every run draws other examples: fifty of each in the gate, more in a campaign.
settings.register_profile("without-database", database=None, deadline=None, max_examples=50 * TIMES)
settings.load_profile("without-database")

# What it asserts is asserted for tests: they shall say what differs.
pytest.register_assert_rewrite("expectations")

#: Set by `nox -s backends`: all tests run under both event loops.
ALL_BACKENDS = os.environ.get("CODEFLASH_PARALLEL_BACKENDS") == "all"


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Run every async test under both event loops (those marked `engine` under asyncio, unless asked)."""
    return str(request.param)


@pytest.fixture(autouse=True)
def _handlers_of_signals() -> Iterator[None]:
    """Undo what the command line does to its process at its end, which here is the tests' own."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)


@pytest.fixture(autouse=READ_ONLY)
def _repositories_are_read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mount the user's repository read-only: while an evaluator has it open, else while a snapshot is taken."""
    from codeflash_parallel.engine import surroundings
    from codeflash_parallel.worktrees import materialise, mirror

    opened, taken, compared = surroundings.open_mirror, mirror.Mirror._take, materialise._patch_of_ref

    @asynccontextmanager
    async def open_mirror(cache: Path, repository: Any) -> AsyncIterator[Any]:
        with kept_read_only(repository.root, repository.common_dir):
            async with opened(cache, repository) as made:
                yield made

    def take(self: Any, *arguments: Any) -> Any:
        with kept_read_only(self.repository.root, self.repository.common_dir):
            return taken(self, *arguments)

    def patch_of_ref(the_mirror: Any, *arguments: Any) -> Any:
        with kept_read_only(the_mirror.repository.root, the_mirror.repository.common_dir):
            return compared(the_mirror, *arguments)

    monkeypatch.setattr(surroundings, "open_mirror", open_mirror)
    monkeypatch.setattr(mirror.Mirror, "_take", take)
    monkeypatch.setattr(materialise, "_patch_of_ref", patch_of_ref)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose what is run, and in which order: after pytest-randomly has shuffled."""
    if not ALL_BACKENDS:
        _leave_out_second_loop(config, items)
    items[:] = _long_ones_first(items)


def _leave_out_second_loop(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the second event loop out of the gate where a test is long or far from it (marked `engine`)."""
    out = [item for item in items if item.get_closest_marker("engine") and _backend(item) == "trio"]
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in set(out)]


def _backend(item: pytest.Item) -> str:
    callspec = getattr(item, "callspec", None)
    return str(callspec.params.get("anyio_backend", "")) if callspec else ""


def _long_ones_first(items: list[pytest.Item]) -> list[pytest.Item]:
    """Put long tests first in either half, so that no worker begins one when the other has nothing left.

    `--dist worksteal` gives two workers a half each, as it comes. Modules stay whole: some share a project.
    """
    long, short = [one for one in items if _is_long(one)], [one for one in items if not _is_long(one)]
    halves: tuple[list[pytest.Item], list[pytest.Item]] = [], []
    for _, module in groupby(long, key=lambda item: item.path):
        min(halves, key=len).extend(module)
    room = max(0, len(items) // 2 - len(halves[0]))
    return [*halves[0], *short[:room], *halves[1], *short[room:]]


def _is_long(item: pytest.Item) -> bool:
    marked = item.get_closest_marker("slow") or item.get_closest_marker("engine")
    return bool(marked) or "acceptance" in item.path.parts
