"""Pickle the arguments of a call into bounded room, with objects that `pickle` leaves out for no deep reason.

Constants of modules that code knows by identity (sentinels, token types of lexers) are kept by their names: a
copy would be another object, for which `is` answers otherwise.
"""

import copyreg
import importlib
import marshal
import pickle
import re
import sys
import threading
import types
import weakref

from .. import slot_paths

#: Readable by every Python that we support.
_PROTOCOL = 4


def dumps(value, room, targets=()):
    """Return the pickle of a value.

    Args:
        room: how many bytes it may take.
        targets: (file, qualified name) of functions whose nameless functions are not to be kept: they are
            what is replaced.

    Raises:
        PickleSizeExceeded: it takes more.
        Exception: whatever the project's own hooks raise.
    """
    blob = _dumped(_Pickler, value, room, targets)
    return _dumped(_Relocating, value, room, targets) if slot_paths.is_marked(blob) else blob


def _dumped(pickler, value, room, targets):
    file = _Bounded(room)
    pickler(file, targets).dump(value)
    return b"".join(file.parts)


class _Pickler(pickle.Pickler):
    """Also takes modules, free locks, and functions that have no name to find them by."""

    def __init__(self, file, targets):
        super().__init__(file, _PROTOCOL)
        self._targets = targets

    def reducer_override(self, obj):
        """Return how an object is made again, or NotImplemented to have it done as always."""
        kind = type(obj)
        if kind is types.FunctionType:
            return NotImplemented if _is_named(obj) else self._function(obj)
        place = place_of(obj)
        if place is not None:
            return find, place
        reducer = _REDUCERS.get(kind)
        return _attributes(obj) if reducer is None else reducer(obj)

    def _function(self, function):
        code = function.__code__
        if any(code.co_filename == file and _is_within(function, name) for file, name in self._targets):
            raise pickle.PicklingError("a nameless function of the target's own")
        return (
            _new_function,
            (_written(code), code.co_filename, _home(function), function.__name__, function.__closure__),
            {name: getattr(function, name) for name in _FUNCTION_STATE},
            None,
            None,
            _set_state,
        )


class _Relocating(_Pickler):
    """Also takes what is pickled to another slot. Slow: it is asked about every object."""

    def persistent_id(self, obj):
        """Return what stands for a path of the slot."""
        return slot_paths.pickled_as(obj)


def _attributes(obj):
    """Return how an object is made again whose attributes are set one by one, as its own code does it.

    `pickle` fills its dictionary instead: then the interpreter looks up each attribute in there, all its
    life, at twice the time and more, and what is timed is another program.
    """
    taken = _descriptors(type(obj))
    if taken is None:
        return NotImplemented
    how = obj.__reduce_ex__(_PROTOCOL)
    state = how[2]
    is_set = type(state) is dict and how[3:] == (None, None) and taken.isdisjoint(state)
    return (*how[:2], (None, state)) if is_set and all(type(name) is str for name in state) else how


#: By type; the project's own are not kept alive.
_DESCRIPTORS = weakref.WeakKeyDictionary()
#: A class that defines one of these controls how its objects are made again.
_HOOKS = frozenset({"__reduce_ex__", "__reduce__", "__getstate__", "__setstate__", "__setattr__"})
_HEAP_TYPE = 1 << 9


def _descriptors(kind):
    """Return the names that a type does not let set freely; None where attributes are not set one by one."""
    if type(kind).__hash__ is not type.__hash__:
        return None
    if kind not in _DESCRIPTORS:
        own = {name: value for base in kind.__mro__[:-1] for name, value in vars(base).items()}
        is_plain = kind.__flags__ & _HEAP_TYPE and kind.__dictoffset__ and not issubclass(kind, type)
        is_plain = is_plain and kind not in copyreg.dispatch_table and _HOOKS.isdisjoint(own)
        names = (name for name, value in own.items() if hasattr(type(value), "__set__"))
        _DESCRIPTORS[kind] = frozenset(names) if is_plain else None
    return _DESCRIPTORS[kind]


_FUNCTION_STATE = ("__defaults__", "__kwdefaults__", "__dict__", "__qualname__")


def _is_named(function):
    """Return whether a function can be found by its module and name, as `pickle` wants it."""
    found = sys.modules.get(function.__module__)
    for name in function.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is function


def _is_within(function, name):
    return function.__qualname__.startswith(name + ".<locals>.")


def _written(code):
    """Return code as a text in which no path of the slot is replaced: lengths go before all that it holds."""
    return marshal.dumps(_placed(code, "")).hex()


def _placed(code, file):
    """Return code, and all code in it, as if it came from a file."""
    inner = [_placed(one, file) if isinstance(one, types.CodeType) else one for one in code.co_consts]
    return code.replace(co_filename=file, co_consts=tuple(inner))


def _home(function):
    """Return the module that holds a function's globals; "builtins" when it needs none.

    Raises:
        PicklingError: they are no module's (a doctest's, say).
    """
    module = sys.modules.get(function.__module__)
    if module is not None and function.__globals__ is module.__dict__:
        return module.__name__
    if function.__globals__.keys() & _names(function.__code__):
        raise pickle.PicklingError("a nameless function whose globals are no module's")
    return "builtins"


def _names(code):
    nested = [_names(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return set(code.co_names).union(*nested)


def _new_function(code, file, module, name, closure):
    """Make a function from its code; its globals are those of its module, imported anew."""
    namespace = {} if module == "builtins" else importlib.import_module(module).__dict__
    made = _placed(marshal.loads(bytes.fromhex(code)), file)
    return types.FunctionType(made, namespace, name, None, closure)


def _set_state(function, state):
    for name, value in state.items():
        if name == "__dict__":
            function.__dict__.update(value)
        else:
            setattr(function, name, value)


def _cell(cell):
    # Through its state, which is set after the cell is made: a recursive function is in its own cell.
    try:
        content = (cell.cell_contents,)
    except ValueError:
        content = ()
    return _new_cell, (), content, None, None, _fill_cell


def _new_cell():
    """Make an empty cell of a closure."""
    return types.CellType()


def _fill_cell(cell, content):
    for value in content:
        cell.cell_contents = value


class PickleSizeExceeded(Exception):  # noqa: N818 - ends a pickle, no failure
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
            raise PickleSizeExceeded
        self.parts.append(bytes(data))


class UninitializedObject:
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
    # A free lock is as good as a new one.
    if "owner=0" not in repr(lock) if type(lock) is _RLOCK else lock.locked():
        raise pickle.PicklingError("a lock that is held")
    return (threading.RLock if type(lock) is _RLOCK else threading.Lock), ()


def _match(match):
    how = (match.re, match.string, match.pos, match.endpos, match.regs)
    _new_match(*how)
    return _new_match, how


def _proxy(proxy):
    return _new_proxy, (dict(proxy),)


def _new_match(pattern, string, pos, endpos, regs):
    """Make a match again: the search of its pattern that gives the same groups at the same places.

    Raises:
        PicklingError: there is none.
    """
    for found in pattern.finditer(string, pos, endpos):
        if found.regs == regs:
            return found
    found = pattern.fullmatch(string, pos, endpos)
    if found is None or found.regs != regs:
        raise pickle.PicklingError("a match that its pattern does not give again")
    return found


def _new_proxy(mapping):
    """Make a view of a mapping."""
    return types.MappingProxyType(mapping)


_RLOCK = type(threading.RLock())
_REDUCERS = {
    re.Match: _match,
    types.CellType: _cell,
    types.ModuleType: _module,
    types.MappingProxyType: _proxy,
    type(threading.Lock()): _lock,
    _RLOCK: _lock,
}


#: Values of these types, and of types made of them, do not change.
_IMMUTABLE = (tuple, str, bytes, int, float, frozenset)
_ATOMS = (str, bytes, int, float, bool, type(None))
#: Constants of one type that are looked for, at most.
_MOST = 10_000
#: By type: constants by identity, and how many modules there were when they were looked for.
_KNOWN = weakref.WeakKeyDictionary()


def place_of(obj):
    """Return the module of a constant and the names that lead to it from there; None of any other object."""
    kind = type(obj)
    if kind is not object and not (_is_immutable(kind, obj) or _is_bare(kind, obj)):
        return None
    if type(kind).__hash__ is not type.__hash__:
        return None
    known, modules = _KNOWN.get(kind, ({}, 0))
    if id(obj) not in known and (len(sys.modules) != modules or (known and _state(obj))):
        known = _constants(kind)
        _KNOWN[kind] = known, len(sys.modules)
    place = known.get(id(obj))
    return place if place and find(*place) is obj else None


def find(module, *names):
    """Return a constant."""
    found = importlib.import_module(module)
    for name in names:
        found = getattr(found, name)
    return found


def _state(obj):
    return obj.__dict__ if type(obj).__dictoffset__ else {}


def _is_immutable(kind, obj):
    """Return whether an object of the project's own type can hold nothing but values that do not change."""
    if not kind.__flags__ & _HEAP_TYPE or not issubclass(kind, _IMMUTABLE):
        return False
    return not issubclass(kind, (tuple, frozenset)) or all(type(item) in _ATOMS for item in obj)


def _is_bare(kind, obj):
    """Return whether an object holds nothing: all that it can be is itself."""
    is_own = all(base is object or base.__flags__ & _HEAP_TYPE for base in kind.__mro__)
    return is_own and kind.__dictoffset__ and not _state(obj) and not _has_slots(kind)


def _has_slots(kind):
    return any(vars(base).get("__slots__") for base in kind.__mro__)


def _constants(kind):
    """Return where the constants of a type are, by identity: those of its package, and what hangs on them."""
    package = kind.__module__.partition(".")[0]
    found, pending = {}, []
    for name, module in list(sys.modules.items()):
        if kind is object or name.partition(".")[0] == package:
            held = getattr(module, "__dict__", None)
            own = list(held.items()) if type(held) is dict else []
            pending += [(value, (name, one)) for one, value in own if type(value) is kind]
    for value, place in pending:  # it grows meanwhile
        if id(value) not in found and len(found) < _MOST:
            found[id(value)] = place
            parts = list(_state(value).items())
            pending += [(part, (*place, one)) for one, part in parts if type(part) is kind]
    return found
