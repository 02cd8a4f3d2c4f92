"""A mistake on the command line is said at once, also while something is timed on the machine."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import anyio.to_thread
import pytest
from harness import Place
from queue_support import with_queue

from codeflash_parallel.process.host_lock import host_quiet

pytestmark = pytest.mark.engine


@pytest.mark.anyio
@pytest.mark.parametrize(
    "wrong",
    [("--function", "words.py::no_such_function"), ("--benchmark", "no_such_file.py::main")],
    ids=["function", "benchmark"],
)
async def test_what_is_not_there_is_said_before_any_lock_is_waited_for(
    build_once: Callable[[str], Place], tmp_path: Path, wrong: tuple[str, str]
) -> None:
    place = with_queue(build_once("import_error"), tmp_path / "cache")
    async with host_quiet(os.environ).exclusive():
        started = place.start("run", "--candidates", str(place.state / "right.py"), *wrong)
        finished = await anyio.to_thread.run_sync(started.finish)
    assert finished.status == 2, str(finished)
    assert wrong[1].split("::")[wrong[0] == "--function"] in finished.errors
    assert "waits" not in finished.errors
    assert "baseline" not in finished.errors
