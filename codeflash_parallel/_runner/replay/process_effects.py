"""What a call leaves in its process besides its result: output, environment variables, current directory.

Each call begins with the same ones, whatever the one before it did.
"""

import hashlib
import io
import os
import sys
import threading

from ..paths import path_relocation

#: What was printed is kept up to here, in bytes; then its digest goes on.
_CHUNK = 1 << 16


class ProcessEffects:
    """Those of one process, from now on.

    Args:
        project: the current directory of every call.
    """

    def __init__(self, project):
        self._project, self._sink = project, _Sink()
        before = sys.stdout
        # As it was in all other ways: who asks for its number writes past it.
        # What is written comes at once, in the thread that writes it.
        encoding = getattr(before, "encoding", None) or "utf-8"
        errors = getattr(before, "errors", None)
        self._stream = io.TextIOWrapper(self._sink, encoding, errors, write_through=True)
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
        return _digest(
            path_relocation.neutral(repr(sorted((name, now.get(name)) for name in names))).encode()
        )

    def _directory(self):
        try:
            now = os.getcwd()
        except OSError:
            return "gone"
        return "" if now == self._project else _digest(path_relocation.neutral(repr(now)).encode())


def _raw():
    """Return a copy of the variables as they are kept: a tenth of the time that it takes to decode them."""
    return dict(getattr(os.environ, "_data", os.environ))


def _digest(data):
    return hashlib.blake2b(data, digest_size=8).hexdigest()


class _Sink(io.RawIOBase):
    """Takes bytes in the place of standard output: those of the thread that makes the calls.

    What other threads print comes when it comes, perhaps after the call.
    """

    def __init__(self):
        self._thread = threading.get_ident()
        self._begin()

    def _begin(self):
        self._pending, self._digest = bytearray(), hashlib.blake2b(digest_size=8)
        self._is_empty = True

    def writable(self):
        """Say that it may be written to."""
        return True

    def fileno(self):
        """Return the number of the real standard output."""
        return 1

    def write(self, data):
        """Take bytes."""
        data = bytes(data)
        if data and threading.get_ident() == self._thread:
            self._is_empty = False
            self._pending += data
            if len(self._pending) > _CHUNK:
                # No path goes over the end of a line; the digest does not tell how much was written at once.
                self._take(self._pending.rfind(b"\n") + 1 or len(self._pending))
        return len(data)

    def _take(self, size):
        self._digest.update(path_relocation.neutral_bytes(bytes(self._pending[:size])))
        del self._pending[:size]

    def taken(self):
        """Return the digest of all that was written since the last time; empty where nothing was."""
        self._take(len(self._pending))
        found = "" if self._is_empty else self._digest.hexdigest()
        self._begin()
        return found
