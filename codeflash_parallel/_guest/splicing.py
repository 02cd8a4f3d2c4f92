"""Put an object of one observed call in the place of one in another: a list of lists where tests had none.

A part may stand wherever one of its class was seen; where several classes were seen, as in a tree of nodes,
any of their nearest common base may.
"""

import copy

from .constructors import attributes

#: Objects that are looked at, in one call and in all; a call that has more of them stays as it is.
_MOST_PARTS, _MOST_IN_ALL = 1_000, 20_000
_HEAP_TYPE = 1 << 9


class Splicer:
    """Knows the objects inside observed calls.

    Args:
        observed: (args, kwargs) of each call.
    """

    def __init__(self, observed):
        self._kinds, self._parts = {}, []
        for call in observed:
            for place, part in _parts(call):
                self._kinds.setdefault(place, set()).add(type(part))
                self._parts.append(part)
            if len(self._parts) > _MOST_IN_ALL:
                break

    def spliced(self, call, chance):
        """Return a call with one object in it replaced, or None where there is none.

        Args:
            call: (args, kwargs); it is copied.
            chance: source of everything drawn.
        """
        parts = _parts(call)
        if not parts:
            return None
        place, part = chance.choice(parts)
        fits = _fits(self._kinds.get(place, {type(part)}))
        others = [other for other in self._parts if issubclass(type(other), fits)]
        return copy.deepcopy(call, {id(part): copy.deepcopy(chance.choice(others))}) if others else None


def _fits(kinds):
    """Return the classes that may stand in a place where some were seen."""
    if len(kinds) == 1:
        return tuple(kinds)
    first, *others = [kind.__mro__ for kind in kinds]
    common = (base for base in first if _is_own(base) and all(base in other for other in others))
    return next(((base,) for base in common), tuple(kinds))


def _is_own(kind):
    return bool(kind.__flags__ & _HEAP_TYPE) and kind.__module__ not in (
        "abc",
        "typing",
        "enum",
        "collections.abc",
    )


def _parts(call):
    """Return the objects inside arguments, with the class and the attribute that hold each of them."""
    args, kwargs = call
    found, seen = [], set()
    left = [(None, value) for value in (*args, *kwargs.values())]
    while left and len(seen) < _MOST_PARTS:
        place, value = left.pop()
        kind = type(value)
        if id(value) in seen:
            continue
        if kind in (list, tuple, set, frozenset):
            left += [(place, item) for item in value]
        elif kind is dict:
            left += [(place, item) for item in value.values()]
        elif _is_own(kind) and not isinstance(value, (type, BaseException)):
            if place is not None:
                found.append((place, value))
            left += [((kind, name), part) for name, part in attributes(value).items()]
        else:
            continue
        seen.add(id(value))
    return [] if left else found
