"""A check waits while something is timed on the machine, by whomever, and says so."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from harness import Place, wait_for
from queue_support import TARGET, with_queue

from codeflash_parallel.process.host_lock import host_quiet

pytestmark = pytest.mark.engine

LONG_S = 60.0


@pytest.mark.witness
@pytest.mark.anyio
async def test_a_check_waits_for_what_is_timed_elsewhere(
    build_once: Callable[[str], Place], tmp_path: Path
) -> None:
    place = with_queue(build_once("import_error"), tmp_path / "cache")
    async with host_quiet(os.environ).exclusive():
        started = place.start("check", "--candidates", str(place.state / "right.py"), *TARGET)

        def says_so() -> bool:
            said = os.pread(started.stderr.fileno(), 1 << 16, 0)  # its own place in the file stays
            return b"waits: something is timed on this machine" in said

        assert await anyio.to_thread.run_sync(wait_for, says_so, LONG_S)
        assert started.process.poll() is None
    finished = await anyio.to_thread.run_sync(started.finish)
    assert finished.status == 0, str(finished)
    assert "continues" in finished.errors
