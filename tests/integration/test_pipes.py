"""The pipes of children: what they hold when nobody reads."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import closing

import pytest

from codeflash_parallel.process.streams import CHUNK_BYTES, RECORDS_BYTES, Outlet, Records


@pytest.fixture(params=[CHUNK_BYTES, RECORDS_BYTES])
def room_bytes(request: pytest.FixtureRequest) -> int:
    size: int = request.param
    return size


@pytest.fixture
def records(room_bytes: int) -> Records:
    return Records(2 * room_bytes)


@pytest.fixture
def outlet(records: Records, room_bytes: int) -> Iterator[Outlet]:
    with closing(Outlet(records, room_bytes)) as outlet:
        if fcntl.fcntl(outlet, fcntl.F_GETPIPE_SZ) < room_bytes:
            pytest.skip("this user has no pipe memory left")
        os.set_blocking(outlet.write_end, False)
        yield outlet


def test_a_child_is_not_stopped_before_the_pipe_is_full(outlet: Outlet, room_bytes: int) -> None:
    assert os.write(outlet.write_end, bytes(2 * room_bytes)) == room_bytes


def test_closing_takes_all_that_is_in_the_pipe(outlet: Outlet, records: Records, room_bytes: int) -> None:
    os.write(outlet.write_end, bytes(room_bytes))
    outlet.close()
    assert len(records.content()) == room_bytes
