from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

# Examples that failed are worth a test of their own; a database on disk is not writable for every user.
settings.register_profile("without-database", database=None, deadline=None)
settings.load_profile("without-database")

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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the second event loop out of the gate where a test is long or far from it (marked `engine`)."""
    if ALL_BACKENDS:
        return
    out = [item for item in items if item.get_closest_marker("engine") and _backend(item) == "trio"]
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in set(out)]


def _backend(item: pytest.Item) -> str:
    callspec = getattr(item, "callspec", None)
    return str(callspec.params.get("anyio_backend", "")) if callspec else ""
