"""Orders with descriptors, and lines of an arm."""

from __future__ import annotations

import os
import socket
import threading

from codeflash_parallel._runner.channel.control_channel import ArmControl, OrderSocket


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
