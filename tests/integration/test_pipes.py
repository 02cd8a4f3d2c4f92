"""The pipes of children: what they hold when nobody reads, and what they leave to others."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress

import anyio
import pytest

from codeflash_parallel.process.launcher.child_connection import (
    AS_MADE,
    CHUNK_BYTES,
    RECORDS_BYTES,
    BoundedOutput,
    ChildConnection,
    OutputPipe,
    PipeMemory,
    PipeReader,
)
from codeflash_parallel.result.runtime_protocols import ProcessLimits

#: A user who owns nothing: the kernel counts the pipes of each user, and of root none.
NOBODY_ELSE = 54_321
PIPES = ["stdout", "stderr", "records"]


@pytest.fixture(autouse=True)
def _ordinary_user() -> Iterator[None]:
    """Be a user without privileges; whoever may not change is one already."""
    with suppress(OSError):
        os.setresuid(NOBODY_ELSE, NOBODY_ELSE, -1)
    yield
    with suppress(OSError):
        os.setresuid(0, 0, -1)


@pytest.fixture(params=[CHUNK_BYTES, RECORDS_BYTES])
def room_bytes(request: pytest.FixtureRequest) -> int:
    size: int = request.param
    return size


@pytest.fixture
def records(room_bytes: int) -> BoundedOutput:
    return BoundedOutput(2 * room_bytes)


@pytest.fixture
def outlet(records: BoundedOutput, room_bytes: int) -> Iterator[OutputPipe]:
    with closing(OutputPipe(records, room_bytes)) as outlet:
        os.set_blocking(outlet.write_end, False)
        yield outlet


def held_by(pipe: int) -> int:
    return fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ)


def held_by_a_new_pipe() -> int:
    read_end, write_end = os.pipe()
    held = held_by(read_end)
    os.close(read_end)
    os.close(write_end)
    return held


def test_a_child_is_not_stopped_before_the_pipe_is_full(outlet: OutputPipe, room_bytes: int) -> None:
    assert os.write(outlet.write_end, bytes(2 * room_bytes)) == room_bytes


def test_closing_takes_all_that_is_in_the_pipe(
    outlet: OutputPipe, records: BoundedOutput, room_bytes: int
) -> None:
    os.write(outlet.write_end, bytes(room_bytes))
    outlet.close()
    assert len(records.content()) == room_bytes


@pytest.mark.anyio
async def test_many_slots_leave_the_tests_pipes_as_large_as_usual() -> None:
    usual = held_by_a_new_pipe()
    with ExitStack() as stack:
        for number in range(24 * 5):  # of each slot four templates and a check
            connection = ChildConnection(number, "", 0, ProcessLimits(wall_s=1.0))
            stack.callback(connection.close)
            connection.connect([*PIPES, "control"] if number % 5 else PIPES)
            connection.handed_over()
        assert held_by_a_new_pipe() == usual
    with closing(OutputPipe(BoundedOutput(1), RECORDS_BYTES)) as outlet:  # what was closed counts no more
        assert held_by(outlet.fileno()) == RECORDS_BYTES


@pytest.mark.anyio
async def test_who_is_there_for_long_holds_no_more_than_usual() -> None:
    connection = ChildConnection(1, "", 0, ProcessLimits(wall_s=1.0))
    with closing(connection):
        connection.connect([*PIPES, "control"])
        ends = [end for name, end in connection.descriptors().items() if name != "control"]
        assert [held_by(end) for end in ends] == [held_by_a_new_pipe()] * 3


def test_pipes_are_enlarged_while_the_share_lasts() -> None:
    usual = held_by_a_new_pipe()
    memory = PipeMemory(RECORDS_BYTES + CHUNK_BYTES)
    with ExitStack() as stack:
        ends = [os.pipe() for _ in range(3)]
        for end in [end for both in ends for end in both]:
            stack.callback(os.close, end)
        first, second, third = (read_end for read_end, _ in ends)
        for pipe in (first, second, third):
            memory.enlarge(pipe, RECORDS_BYTES)
        assert [held_by(pipe) for pipe in (first, second, third)] == [RECORDS_BYTES, CHUNK_BYTES, usual]
        memory.release(first)
        memory.release(third)
        memory.enlarge(third, CHUNK_BYTES)
        assert held_by(third) == CHUNK_BYTES


@pytest.mark.anyio
async def test_who_fills_a_small_pipe_is_not_kept_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(anyio, "sleep", pause)
    records = BoundedOutput(1 << 20)
    with closing(OutputPipe(records, AS_MADE)) as outlet, closing(PipeReader([outlet])) as drain:
        fcntl.fcntl(outlet.fileno(), fcntl.F_SETPIPE_SZ, 8192)  # as the kernel makes it where memory is spent
        writer = threading.Thread(target=os.write, args=(outlet.write_end, bytes(32 * 8192)))
        writer.start()
        while len(records.content()) < 32 * 8192:
            await drain.more()
        writer.join()
    assert pauses == []
