"""Whether a worker lives, and whether it makes progress."""

from __future__ import annotations

import pytest

from codeflash_parallel.queue.daemon.worker_pool import WorkerSample

SEEN = WorkerSample(answers=5, messages=3, cpu_s=10.0)


@pytest.mark.parametrize(
    ("now", "on"),
    [
        (SEEN, False),
        (SEEN._replace(cpu_s=10.001), False),
        (SEEN._replace(cpu_s=9.0), False),
        (SEEN._replace(answers=6), False),
        (SEEN._replace(messages=4), True),
        (SEEN._replace(cpu_s=10.5), True),
        (SEEN._replace(waits=True), True),
    ],
)
def test_to_live_is_not_to_get_on(now: WorkerSample, on: bool) -> None:
    assert now.progressed_since(SEEN) is on


@pytest.mark.parametrize(
    ("now", "alive"),
    [
        (SEEN, False),
        (SEEN._replace(messages=9, cpu_s=99.0), False),
        (SEEN._replace(answers=6), True),
        (SEEN._replace(answers=6, stopped=True), False),
    ],
)
def test_who_does_not_answer_does_not_live(now: WorkerSample, alive: bool) -> None:
    assert now.lives_since(SEEN) is alive
