"""Fields of objects in memory, read by the kernel, so that no reference count is written.

A fork shares the pages of its template until it writes to them. To compare thousands of functions in Python
writes a count in each, and so copies the pages of all: a tenth of the CPU time of a short check. The kernel
(`process_vm_readv`) copies just the fields, and two runs of bytes are compared.

A dictionary's field is its version, which every change makes another one (PEP 509; CPython up to 3.13).
Where a field is not found as expected, in another interpreter or a later version, `reader` returns None.
"""

import array
import ctypes
import functools
import gc
import sys
from ctypes import addressof, byref, create_string_buffer
from os import getpid  # kept from the start: where a test replaces it, another process would be read

#: Pieces that one call of the kernel takes (IOV_MAX).
_MOST_PIECES = 1024
#: Where a field is looked for: the first so many bytes of an object.
_HEAD = 512
_WORD = ctypes.sizeof(ctypes.c_void_p)


class _Piece(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))


def reader(dictionaries, classes, functions, cells):
    """Return a reader of the parts of some objects that tell whether they were changed; None: there is none.

    Args:
        dictionaries: namespaces; of classes, what `vars` gives.
        classes: of which the order of bases is read.
        functions: of which code and defaults are read.
        cells: of closures, of which the content is read.
    """
    fields = _fields()
    if fields is None:
        return None
    version, bases, code, defaults, content = fields
    spaces = [space if isinstance(space, dict) else gc.get_referents(space)[0] for space in dictionaries]
    if not all(isinstance(space, dict) for space in spaces):
        return None
    pieces = [(id(space) + version, 1) for space in spaces]
    pieces += [(id(kind) + bases, 1) for kind in classes]
    for function in functions:
        pieces += [(id(function) + code, 1), (id(function) + defaults, 1)]
    if defaults == code + _WORD:  # from 3.10 on
        pieces[len(spaces) + len(classes) :] = [(id(function) + code, 2) for function in functions]
    pieces += [(id(cell) + content, 1) for cell in cells]
    try:
        return MemoryFields(pieces)
    except OSError:
        return None


class MemoryFields:
    """Words at some addresses, and whether they are what they were.

    Args:
        pieces: addresses in this process, and how many words lie there; whoever makes this keeps them alive.

    Raises:
        OSError: the kernel does not read them.
    """

    def __init__(self, pieces):
        self._pieces = (_Piece * len(pieces))(*[(address, words * _WORD) for address, words in pieces])
        sizes = [words * _WORD for _, words in pieces]
        self._calls = [
            (at, min(_MOST_PIECES, len(sizes) - at), sum(sizes[at : at + _MOST_PIECES]))
            for at in range(0, len(sizes), _MOST_PIECES)
        ]
        self._size = sum(sizes)
        self._before = self._read()

    def changed(self):
        """Return the numbers of the words that are others now; all, where the kernel reads none any more."""
        try:
            now = self._read()
        except OSError:
            return list(range(self._size // _WORD))
        if now == self._before:
            return []
        words, before = array.array("Q", now), array.array("Q", self._before)
        return [number for number, word in enumerate(words) if word != before[number]]

    def _read(self):
        taken = create_string_buffer(self._size)
        place, first = addressof(taken), addressof(self._pieces)
        for at, count, size in self._calls:
            here = _Piece(place, size)
            there = ctypes.c_void_p(first + at * ctypes.sizeof(_Piece))
            if _read(getpid(), byref(here), 1, there, count, 0) != size:
                raise OSError(ctypes.get_errno(), "process_vm_readv does not read this process")
            place += size
        return taken.raw


_read = getattr(ctypes.CDLL(None, use_errno=True), "process_vm_readv", None)
if _read is not None:
    _read.restype = ctypes.c_ssize_t
    _number, _pointer = ctypes.c_ulong, ctypes.c_void_p
    _read.argtypes = (ctypes.c_int, _pointer, _number, _pointer, _number, _number)


@functools.cache
def _fields():
    """Return where an object has its field: of dictionary, class, function (code, defaults) and cell."""
    if _read is None or sys.implementation.name != "cpython" or _WORD != 8:
        return None

    def function(value=(1, 2)):
        return lambda: value

    class Kind:
        pass

    code, defaults, cell = function.__code__, function.__defaults__, function().__closure__[0]
    held = ((Kind, Kind.__mro__), (function, code), (function, defaults), (cell, cell.cell_contents))
    offsets = [_offset(*pair) for pair in held]
    version = 3 * _WORD  # behind the count of references, the type and the length
    return None if None in offsets or not _versions_tell(version) else (version, *offsets)


def _offset(holder, held):
    """Return where the address of one object stands in another; None: not in one place."""
    size = min(_HEAD, sys.getsizeof(holder)) // _WORD * _WORD
    words = array.array("Q", ctypes.string_at(id(holder), size))
    return words.index(id(held)) * _WORD if words.count(id(held)) == 1 else None


def _versions_tell(offset):
    """Say whether a word of a dictionary is another one after each change, and the same after a look."""
    space = {"a": 1}
    steps = [
        (lambda: [space["a"], space.get("b"), list(space.items())], False),
        (lambda: space.update(b=2), True),
        (lambda: space.__setitem__("a", 2), True),
        (lambda: space.pop("b"), True),
        (space.clear, True),
    ]
    return all(_changes(id(space) + offset, step) is expected for step, expected in steps)


def _changes(address, step):
    try:
        word = MemoryFields([(address, 1)])
    except OSError:
        return None
    step()
    return bool(word.changed())
