"""What a call leaves in its process besides its result: output, environment variables, current directory.

Each call begins with the same ones, whatever the one before it did.
"""

import hashlib
import io
import os
import sys

from . import relocating

#: What was printed is kept up to here, in bytes; then its digest goes on.
_CHUNK = 1 << 16


class Surroundings:
    """Those of one process, from now on.

    Args:
        project: the current directory of every call.
    """

    def __init__(self, project):
        self._project, self._sink = project, _Sink()
        before = sys.stdout
        # As it was in all other ways: who asks for its number writes past it.
        self._stream = io.TextIOWrapper(
            self._sink, getattr(before, "encoding", None) or "utf-8", getattr(before, "errors", None)
        )
        sys.stdout = self._stream
        self.keep()

    def keep(self):
        """Take the variables of now as the ones that every call begins with."""
        self._environ, self._raw = dict(os.environ), _raw()

    def reset(self):
        """Give back to the next call what the ones before may have changed."""
        os.chdir(self._project)
        if _raw() != self._raw:
            os.environ.clear()
            os.environ.update(self._environ)
        self._printed()

    def traces(self):
        """Return what has changed since, by name; an empty text: nothing."""
        return {"printed": self._printed(), "environ": self._variables(), "directory": self._directory()}

    def _printed(self):
        try:
            self._stream.flush()
        except ValueError:  # somebody has closed it: so it stays for all calls
            return "closed"
        return self._sink.taken()

    def _variables(self):
        if _raw() == self._raw:
            return ""
        now = dict(os.environ)
        names = {name for name in {*now, *self._environ} if now.get(name) != self._environ.get(name)}
        return _digest(relocating.neutral(repr(sorted((name, now.get(name)) for name in names))).encode())

    def _directory(self):
        try:
            now = os.getcwd()
        except OSError:
            return "gone"
        return "" if now == self._project else _digest(relocating.neutral(repr(now)).encode())


def _raw():
    """Return a copy of the variables as they are kept: a tenth of the time that it takes to decode them."""
    return dict(getattr(os.environ, "_data", os.environ))


def _digest(data):
    return hashlib.blake2b(data, digest_size=8).hexdigest()


class _Sink(io.RawIOBase):
    """Takes bytes in the place of standard output."""

    def __init__(self):
        self._parts, self._size, self._earlier = [], 0, b""

    def writable(self):
        """Say that it may be written to."""
        return True

    def fileno(self):
        """Return the number of the real standard output."""
        return 1

    def write(self, data):
        """Take bytes."""
        data = bytes(data)
        self._parts.append(data)
        self._size += len(data)
        if self._size > _CHUNK:
            self._earlier = self.taken().encode()
        return len(data)

    def taken(self):
        """Return the digest of all that was written since the last time; empty where nothing was."""
        written, earlier = b"".join(self._parts), self._earlier
        self._parts, self._size, self._earlier = [], 0, b""
        return _digest(earlier + relocating.neutral_bytes(written)) if written or earlier else ""
