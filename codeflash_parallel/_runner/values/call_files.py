"""Captured calls on disk: written and read by runner processes only, the evaluator never unpickles.

The file is a row of entries, each two lengths, a JSON head and a blob. A head with ``"i"`` is a call, one
with ``"modules"`` tells where modules of the project lie that cannot be imported by name (test files mostly).

An object of the baseline has the attributes that the baseline's code gave it. A candidate may keep more in
its objects (a compiled pattern, a position), set in `__init__`; without these every call with a captured
object would fail. `completed` takes such a private attribute from an object that the constructor makes of
the same arguments; it is not compared, because the baseline has none.
"""

import contextlib
import functools
import importlib.util
import json
import opcode
import os
import struct
import sys
from collections import namedtuple

from .. import slot_paths
from . import argument_pickler

#: Length of the head and of the blob, in bytes.
_LENGTHS = struct.Struct(">IQ")

#: One captured call: `meta` as the contract has it, `blob` the pickle of (args, kwargs) from before the call.
Call = namedtuple("Call", "meta blob")  # noqa: PYI024 - typing is slow to import


def write_modules(file, root):
    """Append the places of all modules loaded from below `root`: a replay may need the classes in them."""
    prefix = os.path.realpath(root) + os.sep
    write_call(file, {"modules": dict(_modules_below(prefix))}, b"")


def write_call(file, head, blob):
    """Append a call (or another head with its blob) to a binary file."""
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
    return slot_paths.load(call.blob)


class CapturedModuleFinder:
    """A last-resort finder for modules that were imported by path during the capture.

    Test modules are imported by pytest from folders that are not on `sys.path`; pickles name their classes.
    """

    def __init__(self, root, places):
        self._root, self._places = root, places

    def find_spec(self, name, path=None, target=None):  # noqa: ARG002 - the import system's signature
        """Return a spec for a module whose place is known."""
        place = self._places.get(name)
        if place is None:
            return None
        file = os.path.join(self._root, place)
        folder = [os.path.dirname(file)] if os.path.basename(file) == "__init__.py" else None
        return importlib.util.spec_from_file_location(name, file, submodule_search_locations=folder)


def install_places(spec):
    """Make the modules that the inputs file of `spec` knows importable, after every other way has failed.

    Paths of the slot in inputs become those of this one.
    """
    slot_paths.settle(spec)
    places = read_modules(spec["inputs"])
    if places:
        sys.meta_path.append(CapturedModuleFinder(spec["root"], places))


#: Names of attributes that are not compared, by class.
ADDED = {}
_STORE_ATTR = opcode.opmap["STORE_ATTR"]
#: Longest pickle of a call's arguments.
_MOST_BYTES = 64 << 20
_OWN_WAYS = ("__reduce__", "__reduce_ex__", "__getstate__")


def completed(calls, captured):
    """Return calls in which objects of classes beside the targets have what constructors set now.

    Args:
        calls: what they go to is imported.
        captured: path of the file of all captured calls; these tell what objects of the baseline have,
            however few of them are made here.
    """
    # The file is read once, and only where a constructor sets private attributes.
    blobs = functools.lru_cache(None)(lambda: [call.blob for call in read_calls(captured)])
    classes = {}
    for name in {call.meta["module"] for call in calls}:
        with contextlib.suppress(Exception):  # a module that cannot be imported: the replay says so
            kinds = [kind for kind in list(vars(sys.modules[name]).values()) if isinstance(kind, type)]
            classes.update({kind: _new(kind, blobs) for kind in kinds if kind.__module__ == name})
    classes = {kind: new for kind, new in classes.items() if new}
    if not classes:
        return calls
    try:
        for kind, new in classes.items():
            kind.__setstate__ = _setter(new)
        return [_again(call, classes) for call in calls]
    except Exception:  # a metaclass may forbid it
        return calls
    finally:
        for kind in classes:
            with contextlib.suppress(Exception):
                del kind.__setstate__


def _new(kind, blobs):
    """Return the private attributes that a class's constructor sets and that no captured object has."""
    code = getattr(vars(kind).get("__init__"), "__code__", None)
    is_plain = not hasattr(kind, "__setstate__") and all(
        getattr(kind, way, None) is getattr(object, way, None) for way in _OWN_WAYS
    )
    names = _stored(code) if code is not None and is_plain else ()
    word = kind.__name__.encode()
    held = [blob for blob in blobs() if word in blob] if names else []
    return {name for name in names if held and not any(name.encode() in blob for blob in held)}


def _again(call, classes):
    if not any(kind.__name__.encode() in call.blob for kind in classes):
        return call
    try:
        return call._replace(blob=argument_pickler.dumps(load(call), _MOST_BYTES))
    except BaseException:  # a constructor may end the process; the replay says so
        return call


def _setter(new):
    def set_state(self, state):
        _fill(self, state)
        _complete(self, new)

    return set_state


def _stored(code):
    """Return the private attributes that a function sets, of whatever object."""
    steps = range(0, len(code.co_code), 2)
    found = {code.co_names[code.co_code[at + 1]] for at in steps if code.co_code[at] == _STORE_ATTR}
    return {name for name in found if name[:1] == "_" and name[-2:] != "__"}


def _fill(value, state):
    """Set the attributes of an object that is being unpickled, as `pickle` does it."""
    held, slots = state if type(state) is tuple and len(state) == 2 else (state, None)
    if held:
        value.__dict__.update(held)
    for name, part in (slots or {}).items():
        object.__setattr__(value, name, part)


def _complete(value, names):
    from ..inputs import input_objects

    kind, held = type(value), input_objects.attributes(value)
    missing = names - held.keys()
    ADDED.setdefault(kind, set()).update(missing)
    with contextlib.suppress(Exception):  # then the call fails, and says so
        made = input_objects.attributes(input_objects.made_again(kind, value)) if missing else {}
        for name in missing & made.keys():
            object.__setattr__(value, name, made[name])
