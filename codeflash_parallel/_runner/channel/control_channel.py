"""Control channels to the evaluator: lines of an arm of the race, orders with descriptors for a template."""

import json
import os
import socket

from .record_channel import line_of, move_high

_ORDER_BYTES = 1 << 16
_MOST_DESCRIPTORS = 8
#: What a fork says to its template when it has got its order.
_TAKEN = b"t"


class OrderSocket:
    """The template's or arm server's end of the socket to the evaluator, or an end of the line to a fork.

    Args:
        control: descriptor of the socket; it is moved out of the way.
    """

    def __init__(self, control):
        self._socket = socket.socket(fileno=move_high(control))

    def fileno(self):
        """Return the descriptor."""
        return self._socket.fileno()

    def close(self):
        """Close this process's end."""
        self._socket.close()

    def say(self, t, **fields):
        """Send one answer."""
        try:
            self._socket.sendall(line_of(t, **fields))
        except (BrokenPipeError, ConnectionResetError):
            return  # the next `receive` says so

    def pass_on(self, order, descriptors):
        """Give an order to a fork, with the descriptors that came along; return whether it has taken it."""
        try:
            socket.send_fds(self._socket, [json.dumps(order).encode() + b"\n"], descriptors)
            return self._socket.recv(1) == _TAKEN
        except (BrokenPipeError, ConnectionResetError):
            return False

    def accept(self):
        """Say that the order was taken, and end the conversation."""
        self._socket.sendall(_TAKEN)
        self.close()

    def receive(self):
        """Return the next order and the descriptors that came with it; at the end, the order to quit."""
        data, numbers = b"", []
        while not data.endswith(b"\n"):
            more, extras = self._read()
            for _, _, raw in extras:
                numbers += memoryview(raw[: len(raw) // 4 * 4]).cast("i").tolist()
            if not more:
                return {"op": "quit"}, numbers
            data += more
        return json.loads(data), numbers

    def _read(self):
        room = socket.CMSG_SPACE(4 * _MOST_DESCRIPTORS)
        try:
            return self._socket.recvmsg(_ORDER_BYTES, room, socket.MSG_CMSG_CLOEXEC)[:2]
        except ConnectionResetError:
            return b"", []


class ArmControl:
    """JSON lines over a descriptor, both ways, blocking."""

    def __init__(self, fd):
        self._fd = move_high(fd)
        os.set_blocking(self._fd, True)
        self._pending = b""

    def send(self, t, **fields):
        """Write one answer, whole."""
        self.send_line(line_of(t, **fields))

    def send_line(self, line):
        """Write a line made beforehand."""
        try:
            while line:
                line = line[os.write(self._fd, line) :]
        except (BrokenPipeError, ConnectionResetError):
            return  # nobody is there any more; the next `receive` says so

    def announce(self, line):
        """Write a line made beforehand, and wait until it was seen."""
        os.write(self._fd, line)
        os.read(self._fd, 1)

    def receive(self):
        """Return the next order; ``{"op": "quit"}`` once the evaluator has closed its end."""
        while b"\n" not in self._pending:
            try:
                data = os.read(self._fd, 65536)
            except ConnectionResetError:
                data = b""
            if not data:
                return {"op": "quit"}
            self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        return json.loads(line)

    def forget(self):
        """Drop what was read ahead: it went to the forked unit."""
        self._pending = b""
