"""Records: lines, seals, records kept for forks, and secrets."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from codeflash_parallel._runner.channels import ArmControl, OrderSocket, RecordChannel, take_secret


@pytest.fixture
def pipe() -> Iterator[tuple[RecordChannel, int]]:
    reading, writing = os.pipe()
    channel = RecordChannel(writing)
    yield channel, reading
    os.close(channel.fileno())
    os.close(reading)


def test_the_seal_covers_all_lines_before_the_end(pipe: tuple[RecordChannel, int]) -> None:
    channel, reading = pipe
    channel.seal_with(b"key")
    channel.write("phase", id="a")
    channel.end(0)
    first, last = os.read(reading, 4096).splitlines(keepends=True)
    assert json.loads(first) == {"t": "phase", "id": "a"}
    seal = hashlib.blake2b(first, key=b"key", digest_size=16).hexdigest()
    assert json.loads(last) == {"t": "end", "status": 0, "seal": seal}


def test_a_fork_repeats_what_its_template_has_recorded(pipe: tuple[RecordChannel, int]) -> None:
    channel, _ = pipe
    channel.keep()
    channel.write("hello", pid=1)
    channel.write("timing", name="config", ns=1)
    first = channel.fileno()
    reading, writing = os.pipe()
    channel.adopt(writing, "imported", keeps=False)
    os.close(first)
    told = [json.loads(line) for line in os.read(reading, 4096).splitlines()]
    assert told == [{"t": "hello", "pid": os.getpid()}, {"t": "served", "point": "imported"}]
    os.close(reading)


def test_a_child_of_a_test_writes_no_records(pipe: tuple[RecordChannel, int]) -> None:
    channel, reading = pipe
    pid = os.fork()
    if pid == 0:
        channel.write("phase", id="forged")
        os._exit(0)
    os.waitpid(pid, 0)
    channel.write("phase", id="own")
    assert os.read(reading, 4096) == b'{"t": "phase", "id": "own"}\n'


def test_secrets_are_read_once(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text(json.dumps({"key": "0102", "canaries": [{"name": "c"}]}))
    spec = {"secret": str(path)}
    assert take_secret(spec) == b"\x01\x02"
    assert spec == {"canaries": [{"name": "c"}]}
    assert not path.exists()
    assert take_secret({}) == b""
    with pytest.raises(OSError, match="secret"):
        take_secret({"secret": str(path)})


def test_orders_bring_descriptors_and_are_accepted() -> None:
    template, fork = (OrderSocket(end.detach()) for end in socket.socketpair())
    reading, writing = os.pipe()
    taken: list[bool] = []
    passing = threading.Thread(target=lambda: taken.append(template.pass_on({"op": "fork"}, [writing])))
    passing.start()
    order, (number,) = fork.receive()
    fork.accept()
    passing.join()
    assert (order, taken) == ({"op": "fork"}, [True])
    assert os.path.sameopenfile(number, writing)
    for descriptor in (reading, writing, number):
        os.close(descriptor)
    template.close()


def test_an_end_that_is_gone_takes_nothing_and_ends_the_other() -> None:
    template, fork = (OrderSocket(end.detach()) for end in socket.socketpair())
    fork.close()
    assert not template.pass_on({"op": "fork"}, [])
    assert template.receive() == ({"op": "quit"}, [])
    template.close()


def test_an_arm_reads_lines_whole_and_ends_with_the_evaluator() -> None:
    evaluator, arm = socket.socketpair()
    control = ArmControl(arm.detach())
    control.send("ready", n=1)
    assert evaluator.recv(100) == b'{"t": "ready", "n": 1}\n'
    evaluator.sendall(b'{"op": "a"}\n{"op"')
    assert control.receive() == {"op": "a"}
    evaluator.sendall(b': "b"}\n')
    assert control.receive() == {"op": "b"}
    evaluator.close()
    assert control.receive() == {"op": "quit"}
