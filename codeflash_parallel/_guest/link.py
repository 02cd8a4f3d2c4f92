"""The socket between the evaluator and a template: lines both ways, and descriptors with the orders."""

import json
import socket

from .records import line_of, move_high

_ORDER_BYTES = 1 << 16
_MOST_DESCRIPTORS = 8


class Link:
    """The template's end.

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
