"""Crossover of calls: an object of one takes the place of one in another, a list that of a list's item, say.

A part may stand wherever one of its class was seen; where several classes were seen, as in a tree of nodes,
any of their nearest common base may.
"""

import copy
import inspect
import sys
import types

from .object_constructors import attributes

#: Objects that are looked at, in one call and in all; a call that has more of them stays as it is.
_MOST_PARTS, _MOST_IN_ALL = 1_000, 20_000
_HEAP_TYPE = 1 << 9
#: Python 3.9 does not tell them: those whose classes are met most.
_USUAL = ("abc", "collections", "datetime", "enum", "pathlib", "re", "typing")
_STANDARD = getattr(sys, "stdlib_module_names", _USUAL)
_CONTAINERS = (list, tuple, set, frozenset, dict)


class Crossover:
    """Knows the objects inside observed calls.

    Args:
        observed: (args, kwargs) of each call.
    """

    def __init__(self, observed):
        self._kinds, self._parts = {}, []
        for call in observed:
            for place, holder, part in _parts(call):
                self._kinds.setdefault(place, set()).add(type(part))
                self._parts.append((holder, part))
            if len(self._parts) > _MOST_IN_ALL:
                break

    def crossed(self, call, chance):
        """Return a call with one object in it replaced, or None where there is none.

        Args:
            call: (args, kwargs); it is copied.
            chance: source of everything drawn.
        """
        parts = _parts(call)
        if not parts:
            return None
        place, holder, part = _drawn(parts, _place_of, chance)
        fits = _fits(self._kinds.get(place, {type(part)}))
        others = [one for one in self._parts if issubclass(type(one[1]), fits)]
        if not others:
            return None
        whole, other = _drawn(others, _class_of, chance)
        # What knows its holder would stand in one that it does not know.
        if _is_within(holder, part) or _is_within(whole, other):
            return None
        return copy.deepcopy(call, {id(part): copy.deepcopy(other)})


def _drawn(parts, key, chance):
    """Return one of some parts: first the key, so that rare ones are drawn as often as common ones."""
    wanted = chance.choice(sorted({key(part) for part in parts}))
    return chance.choice([part for part in parts if key(part) == wanted])


def _place_of(part):
    (kind, name), _, _ = part
    return (kind.__module__, kind.__qualname__, name)


def _class_of(part):
    kind = type(part[1])
    return (kind.__module__, kind.__qualname__)


def _fits(kinds):
    """Return the classes that may stand in a place where some were seen."""
    if len(kinds) == 1:
        return tuple(kinds)
    first, *others = [kind.__mro__ for kind in kinds]
    common = (base for base in first if _is_own(base) and all(base in other for other in others))
    return next(((base,) for base in common), tuple(kinds))


def _is_own(kind):
    """Say whether a class is none of the standard library's."""
    top = str(kind.__module__).partition(".")[0]
    return bool(kind.__flags__ & _HEAP_TYPE) and top not in _STANDARD


def _parts(call):
    """Return the objects inside arguments, each behind what holds it and the class and attribute of that."""
    args, kwargs = call
    found, seen = [], set()
    left = [(None, None, value) for value in (*args, *kwargs.values())]
    while left and len(seen) < _MOST_PARTS:
        place, holder, value = left.pop()
        if id(value) in seen:
            continue
        if type(value) in _CONTAINERS:
            left += [(place, holder, item) for item in (value.values() if type(value) is dict else value)]
        elif _is_object(value):
            if place is not None:
                found.append((place, holder, value))
            left += [((type(value), name), value, part) for name, part in _open(value)]
        else:
            continue
        seen.add(id(value))
    return [] if left else found


def _open(value):
    """Return the attributes of an object that anybody may set, with their names."""
    return [(name, part) for name, part in attributes(value).items() if _is_open(type(value), name)]


def _is_open(kind, name):
    # What a descriptor keeps in the object, as a cached property does, follows from the rest of it.
    static = inspect.getattr_static(kind, name, None)
    return name[:1] != "_" and (type(static) is types.MemberDescriptorType or not hasattr(static, "__get__"))


def _is_object(value):
    return _is_own(type(value)) and not isinstance(value, (type, BaseException))


def _is_within(holder, part):
    """Say whether an object can be reached from another one, or so much can that it may be."""
    seen, left = set(), [part]
    while left:
        value = left.pop()
        if value is holder or len(seen) > _MOST_PARTS:
            return True
        if id(value) in seen:
            continue
        seen.add(id(value))
        if type(value) in _CONTAINERS:
            left += value.values() if type(value) is dict else value
        elif _is_object(value):
            left += attributes(value).values()
    return False
