"""Pickle the arguments of a call: into bounded room, and with what `pickle` leaves out for no deep reason."""

import copyreg
import importlib
import pickle
import threading
import types

#: Readable by every Python that we support.
_PROTOCOL = 4


def dumps(value, room):
    """Return the pickle of a value.

    Args:
        room: how many bytes it may take.

    Raises:
        Full: it takes more.
        Exception: whatever the project's own hooks raise.
    """
    file = _Bounded(room)
    pickler = pickle.Pickler(file, _PROTOCOL)
    pickler.dispatch_table = {**copyreg.dispatch_table, **_REDUCERS}
    pickler.dump(value)
    return b"".join(file.parts)


class Full(Exception):  # noqa: N818 - ends a pickle, no failure
    """A pickle grew beyond its room."""


class _Bounded:
    """A file that takes so many bytes and no more: a huge argument must not fill the memory first."""

    def __init__(self, room):
        self.parts = []
        self._room = room

    def write(self, data):
        """Take some bytes."""
        self._room -= len(data)
        if self._room < 0:
            raise Full
        self.parts.append(bytes(data))


class Blank:
    """Stands for an object before its ``__init__``."""

    def __init__(self, cls):
        self._cls = cls

    def __reduce__(self):
        return blank, (self._cls,)


def blank(cls):
    """Make an object whose ``__init__`` is still to be called."""
    return cls.__new__(cls)


def _module(module):
    return importlib.import_module, (module.__name__,)


def _lock(lock):
    # A lock that nobody holds is as good as a new one.
    if lock.locked():
        raise pickle.PicklingError("a lock that is held")
    return new_lock, ()


def _rlock(lock):
    if "owner=0" not in repr(lock):
        raise pickle.PicklingError("a lock that is held")
    return new_rlock, ()


def _proxy(proxy):
    return new_proxy, (dict(proxy),)


# Some of these types cannot be found by the names that they give themselves.
def new_lock():
    """Make a lock."""
    return threading.Lock()


def new_rlock():
    """Make a reentrant lock."""
    return threading.RLock()


def new_proxy(mapping):
    """Make a view of a mapping."""
    return types.MappingProxyType(mapping)


_REDUCERS = {
    types.ModuleType: _module,
    types.MappingProxyType: _proxy,
    type(threading.Lock()): _lock,
    type(threading.RLock()): _rlock,
}
