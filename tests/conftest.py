from __future__ import annotations

import gc
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import pytest
from compiled_runner import keep_runners_in
from effort import FEW, TIMES
from hypothesis import settings
from mounts import READ_ONLY, kept_read_only
from shared_baselines import keep_baselines_in

from codeflash_parallel.config.environment import QUIET_VARIABLE

# Examples that failed are worth a test of their own; a database on disk is not writable for every user.
# Every run draws other examples: fifty of each in the gate, more in a campaign.
settings.register_profile("without-database", database=None, deadline=None, max_examples=50 * TIMES)
# `nox -s newer`: what one Python has drawn many examples of is tried with some under the others.
settings.register_profile("few", settings.get_profile("without-database"), max_examples=FEW)
settings.load_profile("without-database")

# What it asserts is asserted for tests: they shall say what differs.
pytest.register_assert_rewrite("expectations")

#: Set by `nox -s backends`: all tests run under both event loops.
ALL_BACKENDS = os.environ.get("CODEFLASH_PARALLEL_BACKENDS") == "all"


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Run every async test under both event loops (those marked `engine` under asyncio, unless asked)."""
    return str(request.param)


@pytest.fixture(scope="session", autouse=True)
def _quiet_of_one_s_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep away from races of others on this machine, and of the other test processes, and from their settings."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(QUIET_VARIABLE, str(tmp_path_factory.mktemp("quiet")))
        patched.setenv(
            "XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config"))
        )  # no settings of the developer's
        yield


@pytest.fixture(scope="session", autouse=True)
def _runners_of_this_session(tmp_path_factory: pytest.TempPathFactory) -> None:
    keep_runners_in(tmp_path_factory.mktemp("runners"))
    base = tmp_path_factory.getbasetemp()
    keep_baselines_in((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "baselines")


@pytest.fixture(autouse=True)
def _only_named_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare the projects under test the plugins of our own environment: seconds of each start."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


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
    from codeflash_parallel.run.setup import evaluator_resources
    from codeflash_parallel.workspace.snapshot import candidate_builder, mirror

    opened, taken, compared = (
        evaluator_resources.open_mirror,
        mirror.Mirror._take,
        candidate_builder._patch_of_ref,
    )

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

    monkeypatch.setattr(evaluator_resources, "open_mirror", open_mirror)
    monkeypatch.setattr(mirror.Mirror, "_take", take)
    monkeypatch.setattr(candidate_builder, "_patch_of_ref", patch_of_ref)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose what is run, and in which order: after pytest-randomly has shuffled."""
    if not ALL_BACKENDS:
        _leave_out_second_loop(config, items)
    workers = getattr(config, "workerinput", {"workercount": 1})["workercount"]
    items[:] = _long_ones_first(items, workers)


@pytest.hookimpl(hookwrapper=True)
def pytest_collection() -> Iterator[None]:
    """Look for no garbage while thousands of tests are made: a quarter of the time goes into it."""
    gc.disable()
    yield
    gc.enable()


def pytest_collection_finish() -> None:
    """Look for no garbage among thousands of tests and their modules: they stay to the end."""
    gc.freeze()


def _leave_out_second_loop(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the second event loop out of the gate where a test is long or far from it (marked `engine`)."""
    out = [item for item in items if item.get_closest_marker("engine") and _backend(item) == "trio"]
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in set(out)]


def _backend(item: pytest.Item) -> str:
    callspec = getattr(item, "callspec", None)
    return str(callspec.params.get("anyio_backend", "")) if callspec else ""


def _long_ones_first(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """Put long tests first in each worker's share, so that none begins one when the others have nothing left.

    `--dist worksteal` gives each worker an equal share, as it comes. Modules stay whole: some share a project.
    """
    long, short = [one for one in items if _is_long(one)], [one for one in items if not _is_long(one)]
    shares: list[list[pytest.Item]] = [[] for _ in range(workers)]
    for _, module in groupby(long, key=lambda item: item.path):
        min(shares, key=len).extend(module)
    size = len(items) // workers
    for share in shares:
        room = max(0, size - len(share))
        share.extend(short[:room])
        del short[:room]
    return [*chain.from_iterable(shares), *short]


def _is_long(item: pytest.Item) -> bool:
    marked = item.get_closest_marker("slow") or item.get_closest_marker("engine")
    return bool(marked) or "acceptance" in item.path.parts
