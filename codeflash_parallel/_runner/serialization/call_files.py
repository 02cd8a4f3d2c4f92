"""Captured calls on disk: written and read by guest processes only, the evaluator never unpickles.

The file is a row of entries, each two lengths, a JSON head and a blob. A head with ``"i"`` is a call, one
with ``"modules"`` tells where modules of the project lie that cannot be imported by name (test files mostly).
"""

import importlib.util
import json
import os
import struct
import sys
from collections import namedtuple

from ..paths import path_relocation

#: Length of the head and of the blob, in bytes.
_LENGTHS = struct.Struct(">IQ")

#: One captured call: `meta` as the contract has it, `blob` the pickle of (args, kwargs) from before the call.
Call = namedtuple("Call", "meta blob")  # noqa: PYI024 - typing is slow to import


def write_call(file, meta, blob):
    """Append one call to a binary file."""
    _write(file, meta, blob)


def write_modules(file, root):
    """Append the places of all modules loaded from below `root`: a replay may need the classes in them."""
    prefix = os.path.realpath(root) + os.sep
    _write(file, {"modules": dict(_modules_below(prefix))}, b"")


def _write(file, head, blob):
    encoded = json.dumps(head).encode()
    file.write(_LENGTHS.pack(len(encoded), len(blob)) + encoded)
    file.write(blob)


def _modules_below(prefix):
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str) and path.endswith(".py"):
            real = os.path.realpath(path)
            if real.startswith(prefix):
                yield name, real[len(prefix) :]


def read_calls(path, only=None):
    """Return the calls of a file in order; `only` names the wanted ones by their "i".

    A file that ends in the middle of an entry (its writer was killed) gives what came before.
    """
    wanted = None if only is None else frozenset(only)
    return [
        Call(head, blob)
        for head, blob in _entries(path, lambda head: "i" in head and (wanted is None or head["i"] in wanted))
    ]


def read_modules(path):
    """Return the places of modules, by name, relative to the root that they were recorded below."""
    places = {}
    for head, _ in _entries(path, lambda head: "modules" in head):
        places.update(head["modules"])
    return places


def _entries(path, wanted):
    with open(path, "rb") as file:
        while True:
            lengths = file.read(_LENGTHS.size)
            if len(lengths) < _LENGTHS.size:
                return
            head_size, blob_size = _LENGTHS.unpack(lengths)
            encoded = file.read(head_size)
            if len(encoded) < head_size:
                return
            head = json.loads(encoded)
            if not wanted(head):
                file.seek(blob_size, os.SEEK_CUR)
                continue
            blob = file.read(blob_size)
            if len(blob) < blob_size:
                return
            yield head, blob


def load(call):
    """Unpickle the arguments of a call: a fresh (args, kwargs)."""
    return path_relocation.load(call.blob)


class CapturedModuleFinder:
    """A last-resort finder for modules that were imported by path during the capture.

    Test modules are imported by pytest from folders that are not on `sys.path`; pickles name their classes.
    """

    def __init__(self, root, places):
        self._root, self._places = root, places

    def find_spec(self, name, path=None, target=None):  # noqa: ARG002 - the import system's signature
        """Return a spec for a module whose place is known."""
        place = self._places.get(name)
        return None if place is None else _spec(name, os.path.join(self._root, place))


def _spec(name, file):
    folder = [os.path.dirname(file)] if os.path.basename(file) == "__init__.py" else None
    return importlib.util.spec_from_file_location(name, file, submodule_search_locations=folder)


def install_places(spec):
    """Make the modules that the inputs file of `spec` knows importable, after every other way has failed.

    Paths of the slot in inputs become those of this one.
    """
    path_relocation.settle(spec)
    places = read_modules(spec["inputs"])
    if places:
        sys.meta_path.append(CapturedModuleFinder(spec["root"], places))
