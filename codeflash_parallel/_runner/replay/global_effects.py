"""What a call leaves behind besides its result and its arguments.

Random state, objects that it shares with earlier results, and globals of the target's module.
"""

import random
import sys
import types

from ..values import type_handlers, value_walk
from ..values.object_reduction import UnencodableValue

#: Results of these types can be changed by whoever gets them.
_CHANGEABLE = (list, dict, set, bytearray)
#: Larger containers are not kept alive for the sake of telling, nor more of them than these.
_MOST_PARTS, _MOST_KEPT = 1_000, 20_000
#: A global of more parts is not looked at.
_MOST_NODES = 20_000
#: Names of a module's globals that are its own business, or nobody's.
_PRIVATE = "_"


class GlobalEffects:
    """Tells what each call has left behind in random sources and in earlier results."""

    def __init__(self):
        self._owners = {}

    def of(self, index, value):
        """Return the traces of a call that gave a value, by name.

        To draw a number tells the state of a generator: each call begins with a seed of its own.
        """
        traces = {"random": "%08x" % random.getrandbits(32)}
        numpy_random = sys.modules.get("numpy.random")
        if numpy_random is not None:
            traces["numpy"] = repr(float(numpy_random.random()))
        traces["shared"] = self._shared(index, value)
        return traces

    def _shared(self, index, value):
        """Return the number of the earlier call that has given the same object; and remember this one's."""
        earliest = []
        for part in _changeable(value.items if type(value) is type_handlers.Spent else value):
            owner, _ = self._owners.get(id(part), (index, None))
            if owner != index:
                earliest.append(owner)
            elif len(self._owners) < _MOST_KEPT:
                # Kept alive: its address must not be given to another.
                self._owners[id(part)] = (index, part)
        return str(min(earliest)) if earliest else ""


def _changeable(value):
    """Return the changeable containers in a result: itself, and what lies directly in it."""
    kind = type(value)
    inner = ()
    if kind in (list, tuple, set, frozenset) and len(value) <= _MOST_PARTS:
        inner = value
    elif kind is dict and len(value) <= _MOST_PARTS:
        inner = value.values()
    parts = [part for part in inner if _is_changeable(part)]
    return [value, *parts] if _is_changeable(value) else parts


def _is_changeable(value):
    kind = type(value)
    if kind in _CHANGEABLE:
        return len(value) <= _MOST_PARTS
    return kind.__name__ in ("ndarray", "deque", "defaultdict", "OrderedDict", "Counter")


class ModuleGlobals:
    """The public data of the targets' modules, before and after the calls."""

    def __init__(self, modules):
        self._modules = [name for name in sorted(modules) if name in sys.modules]
        self._before = self._digests()

    def names(self):
        """Return the dotted names of all that are looked at."""
        return sorted(self._before)

    def changed(self):
        """Return the digest of each global that has changed, by its dotted name."""
        after = self._digests()
        return {name: digest for name, digest in after.items() if self._before.get(name, digest) != digest}

    def _digests(self):
        found = {}
        for module in self._modules:
            for name, value in list(vars(sys.modules[module]).items()):
                self._add(found, "%s.%s" % (module, name), name, value)
                if isinstance(value, type) and value.__module__ == module:
                    for attribute, member in list(vars(value).items()):
                        self._add(found, "%s.%s.%s" % (module, name, attribute), attribute, member)
        return found

    def _add(self, found, full, name, value):
        if name.startswith(_PRIVATE) or not _is_data(value):
            return
        steps = value_walk.Walk(type_handlers.REFUSE)
        steps.nodes = value_walk.MAX_NODES - _MOST_NODES
        try:
            steps.run(value)
        except UnencodableValue:
            return
        found[full] = steps.digest()


def _is_data(value):
    kind = type(value)
    return not (callable(value) or isinstance(value, types.ModuleType) or hasattr(kind, "__get__"))
