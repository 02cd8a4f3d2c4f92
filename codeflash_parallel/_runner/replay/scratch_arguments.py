"""Arguments as scratch space: lists and arrays that a function may leave in whatever state it is done with.

Whether it may is decided elsewhere, from what `ScratchArguments.told` says of a call. It says nothing where
another state of an argument is another result: the function returns nothing, the argument itself or a
part of it.
"""

import contextlib

from ..values.object_reduction import UnencodableValue
from ..values.type_handlers import REFUSE, Spent
from ..values.type_names import type_name
from ..values.value_walk import Walk, digest_of

_ARRAYS = frozenset({"builtins.bytearray", "array.array", "numpy.ndarray"})
_FLAT = frozenset({int, float, complex, bool, str, bytes, type(None)})
_NUMBERS = frozenset({int, float, complex, bool})
#: Larger arguments are compared as they are.
_MOST_LEAVES = 100_000
#: And those that hold objects of more parts than these, each counted as often as it is held.
_MOST_PARTS = 3_000


class ScratchArguments:
    """The lists and arrays among the arguments of one call that is about to be made."""

    def __init__(self, args, kwargs):
        places = [*enumerate(args), *kwargs.items()]
        self._before = {}
        for place, value in places:
            if _is_space(value):
                with contextlib.suppress(UnencodableValue):
                    self._before[place] = (value, _Parts(value))

    def told(self, outcome, args, kwargs):
        """Return digests of each of them and, under an empty name, of all the rest; or nothing.

        A digest begins with ``=`` where the call has left the argument as it was, with ``#`` where it has
        changed its length, else with ``~``, or with ``.`` where there is but one item. `at` tells whether the
        result is a place in what was rearranged (``yes``, or ``no``: something else was done).
        """
        try:
            return self._told(outcome, args, kwargs) if self._before and outcome is not None else {}
        except UnencodableValue:
            return {}

    def _told(self, outcome, args, kwargs):
        found, lists, leaves, at = {}, set(), [], set()
        for place, (value, before) in self._before.items():
            after = _Parts(value)
            if not lists.isdisjoint(after.lists):
                return {}
            lists.update(after.lists)
            leaves += after.objects()
            sign = "#" if after.shape != before.shape else "~."[len(after.leaves) == 1]
            sign = "=" if after.is_like(before) else sign
            found[str(place)] = "%s%s %s" % (sign, digest_of(after.shape), _walked(value).digest())
            if sign == "~":
                at.add(_place(outcome.items if type(outcome) is Spent else outcome, before, after))
        rest = [value for place, value in [*enumerate(args), *kwargs.items()] if place not in self._before]
        walk = _walked([outcome, rest])
        if not lists.isdisjoint(walk.memo):
            return {}
        walk.write(repr(sorted(leaves)))
        return dict(found, at=max(at, default=""), **{"": walk.digest()})


class _Parts:
    """What a list holds: `shape` of it and of all lists in it, their `lists`' addresses, and other items."""

    def __init__(self, value):
        self.lists, self.leaves, shape, left = set(), [], [], [value]
        while left:
            item = left.pop()
            if type(item) is not list and not _is_array(item):
                self.leaves.append(item)
                continue
            sizes = getattr(item, "shape", None)
            size = len(item) if sizes is None else item.size
            if id(item) in self.lists or len(self.leaves) + len(left) + size > _MOST_LEAVES:
                raise UnencodableValue("it holds itself, one list twice, or too much")
            self.lists.add(id(item))
            shape.append((len(self.leaves), sizes or size))
            if type(item) is list:
                left += reversed(item)
            else:
                self.leaves += list(item) if sizes is None else item.ravel().tolist()
        self.shape = repr(shape)

    def is_like(self, other):
        """Say whether it holds the same as another one, of the same or equal plain items."""
        pairs = zip(self.leaves, other.leaves)
        return self.shape == other.shape and all(a is b or _is_equal(a, b) for a, b in pairs)

    def objects(self):
        """Return digests of the items that can change.

        Raises:
            Unencodable: they hold too much, or one holds so much of another that each is walked many times.
        """
        found, parts = [], 0
        for item in self.leaves:
            if type(item) in _FLAT:
                continue
            walk = _walked(item)
            parts += walk.nodes
            if parts > _MOST_PARTS:
                raise UnencodableValue("it holds too much")
            if walk.memo:
                found.append(walk.digest())
        return found


def _is_equal(one, other):
    return type(one) is type(other) and type(one) in _FLAT and repr(one) == repr(other)


def _walked(value):
    walk = Walk(REFUSE)
    walk.run(value)
    return walk


def _is_array(value):
    return type_name(type(value)) in _ARRAYS


def _is_space(value):
    """Tell a list of items of one kind, or an array; a list of several kinds is a record."""
    if type(value) is not list:
        return _is_array(value)
    kinds = {"number" if kind in _NUMBERS else kind for kind in map(type, value)} - {type(None)}
    return len(kinds) <= 1


def _place(outcome, before, after):
    """Say whether a result is a place in the argument, or several, and all was only rearranged.

    Where it was sorted that says nothing: many a function begins with it.
    """
    places = outcome if type(outcome) is tuple and outcome else (outcome,)
    if not all(type(place) is int and 0 <= place <= len(after.leaves) for place in places):
        return "no"
    if len(after.lists) > 1 or not set(map(type, before.leaves + after.leaves)) <= _FLAT:
        return "no"
    if sorted(map(repr, before.leaves)) != sorted(map(repr, after.leaves)):
        return "no"
    try:
        ordered = sorted(after.leaves)
    except TypeError:
        ordered = []
    return "" if after.leaves in (ordered, ordered[::-1]) else "yes"
