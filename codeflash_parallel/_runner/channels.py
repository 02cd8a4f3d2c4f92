"""Channels to the evaluator: records, control lines of an arm, orders with descriptors for a template.

A record is one JSON object a line, on a descriptor of its own that the tests never see.
"""

import contextlib
import fcntl
import hashlib
import os
import socket
import threading
from json import dumps, loads
from os import write

#: Below this, tests that count or close "all" their descriptors would meet ours.
_HIGH_FD = 200


class RecordChannel:
    """Writes records. `write("phase", id=..., outcome=...)` gives ``{"t": "phase", "id": ..., ...}``.

    Forked children get a silent channel: what a test's own child does is no record of ours.
    """

    def __init__(self, fd):
        self._fd = move_high(fd)
        self._lock = threading.Lock()
        self._kept = None
        self._served = ""
        self._seal = None
        self._is_followed = False
        os.register_at_fork(after_in_child=self._silence)

    def fileno(self):
        """Return the descriptor."""
        return self._fd

    def seal_with(self, key):
        """Have the end record prove, from now on, that all lines before it are this channel's own.

        Args:
            key: of this run alone; empty: nothing is sealed.
        """
        self._seal = hashlib.blake2b(key=key, digest_size=16) if key else None

    def end(self, status):
        """Write the last record."""
        with self._lock:
            sealed = {} if self._seal is None else {"seal": self._seal.hexdigest()}
        self.write("end", status=status, **sealed)

    @contextlib.contextmanager
    def through_forks(self):
        """Stay open in children that are forked meanwhile: they go on with this runner's work."""
        self._is_followed = True
        try:
            yield
        finally:
            self._is_followed = False

    def keep(self):
        """Keep, from now on, all records for the forks of this process that are going to be runners."""
        self._kept = []

    def adopt(self, fd, point, *, keeps):
        """Write to another descriptor in a fork, first of all what the template has recorded.

        Args:
            point: where the template stands.
            keeps: this fork becomes a template as well.
        """
        kept, self._kept = self._kept, [] if keeps else None
        self._fd, self._served = move_high(fd), point
        for t, fields in kept:
            if t != "timing":  # the template's times are not ours
                self.write(t, **(dict(fields, pid=os.getpid()) if t == "hello" else fields))

    def write(self, t, **fields):
        """Write one record, whole, before returning; nothing when this process is a forked child."""
        if self._kept is not None:
            self._kept.append((t, fields))
        data = line_of(t, **fields)
        if t == "hello" and self._served:
            data += line_of("served", point=self._served)
        self.write_line(data)

    def write_line(self, data):
        """Write a line that was made beforehand."""
        with self._lock:
            if self._seal is not None:
                self._seal.update(data)
            self._write_all(data)

    def _write_all(self, data):
        while data and self._fd >= 0:
            data = data[write(self._fd, data) :]

    def _silence(self):
        self._lock = threading.Lock()
        if self._fd >= 0 and not self._is_followed:
            fd, self._fd = self._fd, -1
            # A test that has closed every descriptor before us had the same wish.
            with contextlib.suppress(OSError):
                os.close(fd)


def take_secret(spec):
    """Read and remove the file of secrets that a spec names, if it names one, and return the seal's key.

    It lies apart from the spec, which stays where it is for the processes that tests start, and is gone
    before any code of a candidate runs. The spec in memory then holds the canaries, as "canaries".

    Raises:
        OSError, ValueError: there is no such file, or something else is in it.
    """
    path = spec.pop("secret", "")
    if not path:
        return b""
    with open(path, "rb") as file:
        told = loads(file.read())
    with contextlib.suppress(OSError):  # it goes with the private folder
        os.unlink(path)
    spec["canaries"] = told["canaries"]
    return bytes.fromhex(told["key"])


def line_of(t, **fields):
    """Return a record as a line."""
    return dumps({"t": t, **fields}).encode() + b"\n"


class RecordBuffer:
    """Keeps records for a carrier that can only bring them home at the end (an xdist worker)."""

    def __init__(self):
        self.records = []

    def write(self, t, **fields):
        """Keep one record."""
        self.records.append({"t": t, **fields})


def move_high(fd):
    """Return a copy of a descriptor, out of the way and not inherited; the original is closed."""
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = soft - 16 if soft != resource.RLIM_INFINITY else _HIGH_FD
    try:
        copy = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, max(3, min(_HIGH_FD, highest)))
    except OSError:
        # Another number will do as well, as long as it is not inherited.
        os.set_inheritable(fd, False)
        return fd
    os.close(fd)
    return copy


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
            socket.send_fds(self._socket, [dumps(order).encode() + b"\n"], descriptors)
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
        return loads(data), numbers

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
            return  # the evaluator is gone; the next `receive` says so

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
        return loads(line)

    def forget(self):
        """Drop what was read ahead: it went to the forked unit."""
        self._pending = b""
