"""The two-way line channel between the evaluator and an arm of the race."""

import json
import os

from .record_channel import line_of, move_high


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
