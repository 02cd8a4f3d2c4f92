"""Messages over a socket pair."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import anyio
import pytest

from codeflash_parallel.process.message_channel import MessageChannel

pytestmark = pytest.mark.anyio


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    with one, other:
        yield one, other


async def test_messages_arrive_whole_and_in_order(pair: tuple[socket.socket, socket.socket]) -> None:
    sender, receiver = map(MessageChannel, pair)
    messages = [{"n": number, "text": "x" * 300_000} for number in range(3)]

    async def send(message: dict[str, object]) -> None:
        await sender.send(message)

    async with anyio.create_task_group() as tasks:
        for message in messages:
            tasks.start_soon(send, message)
        received = [await receiver.receive() for _ in messages]
    assert sorted(received, key=lambda message: message["n"]) == messages
    sender.finish()
    assert await receiver.receive() is None
    receiver.close()
    with pytest.raises(ConnectionError):
        await sender.send({})


async def test_descriptors_come_with_the_message(pair: tuple[socket.socket, socket.socket]) -> None:
    reading, writing = os.pipe()
    await MessageChannel(pair[0]).send({"t": "x"}, [writing])
    os.close(writing)
    _, (passed,), _, _ = socket.recv_fds(pair[1], 1 << 16, 1)
    os.write(passed, b"through")
    assert os.read(reading, 16) == b"through"
    for descriptor in (passed, reading):
        os.close(descriptor)


async def test_an_end_that_does_not_read_is_not_waited_for_for_ever(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    with pytest.raises(TimeoutError):
        await MessageChannel(pair[0]).send({"text": "x" * 10_000_000}, deadline_s=0.05)
