from __future__ import annotations

import socket
from pathlib import Path

import pytest

from codeflash_parallel.queue.worker.channel import WorkerChannel
from codeflash_parallel.queue.worker.worker_process import _Worker


@pytest.mark.anyio
async def test_a_worker_that_waits_says_so_with_whatever_it_says(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        worker = _Worker(WorkerChannel(ours), tmp_path, ())
        worker._waits("something is timed on this machine")
        worker._tell("a check beside it has ended")
        worker._waits("")
        worker._tell("another one has ended")
        said = [worker._to_send.receive_nowait()["waits"] for _ in range(4)]
        for stream in (worker._outbox, worker._to_send, worker._given, worker._jobs):
            stream.close()
    assert said == [True, True, False, False]
