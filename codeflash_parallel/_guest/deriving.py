"""Derive inputs from captured ones: resized, permuted, jittered, drawn, recombined. Pure.

An input is made from a captured one by changing some of its plain parts; what is no builtin container or
atom stays as it was captured. What was made is mended where that is easy (sorted again, made as long as
another argument) and then held against the relations: it keeps all of them, or the name of one that it
breaks goes with it.
"""

import copy
import decimal
import fractions
import operator
import sys

from .drawing import MOST_SIGNS, Drawer
from .mending import mend
from .positions import ITEMS, KEYS, VALUES, children, is_record, rebuilt

_ATOMS = frozenset({int, float, complex, str, bytes, bool, type(None)})
#: Types whose values are taken as they are from what was observed.
_TAKEN = frozenset({decimal.Decimal, fractions.Fraction})
_SEQUENCES = (list, tuple, set, frozenset)

#: How many of the inputs are wild.
_WILD = 0.15
#: How deep the parts of an argument are changed.
_DEPTH = 3


class Deriver:
    """Makes inputs.

    Args:
        known: the relations of all observed calls.
        random: source of everything drawn.
    """

    def __init__(self, known, random):
        self._known, self._random, self._drawer = known, random, Drawer(known, random)

    def derive(self, args, kwargs, others):
        """Return other (args, kwargs) made from fresh ones, and the name of a relation that they break.

        Args:
            args, kwargs: of a captured call; they may be changed.
            others: (args, kwargs) of another captured call, to take whole arguments from.
        """
        places = [(number,) for number, value in enumerate(args) if is_plain(value)]
        places += [(name,) for name, value in kwargs.items() if is_plain(value)]
        if not places or _share(args, kwargs):
            return None
        args, kwargs = list(args), dict(kwargs)
        # What breaks a relation is of interest, too: what is wild goes beyond ranges, and is not mended.
        self._drawer.wild = self._random.random() < _WILD
        for (top,) in self._some(places):
            holder = kwargs if type(top) is str else args
            holder[top] = self._argument(holder[top], top, others)
        if not self._drawer.wild:
            mend(self._known, args, kwargs)
        args = tuple(args)
        return args, kwargs, self._known.broken(args, kwargs)

    def _some(self, places):
        """Return one place mostly, or several."""
        count = 1 if self._random.random() < 0.5 else self._random.randint(1, len(places))
        return self._random.sample(places, count)

    def _argument(self, value, top, others):
        if self._random.random() < 0.25:
            taken = _taken(others, top)
            if taken and is_plain(taken[0]):
                return copy.deepcopy(taken[0])
        return self._changed(value, (top,), _DEPTH)

    # ---- one value

    def _changed(self, value, path, depth):
        """Return a value like this one, changed in one of the ways that its type knows."""
        array = _array_type(value)
        if array is not None:
            return self._changed_array(value)
        ways = _WAYS.get(type(value), ("drawn",))
        way = self._random.choice(ways)
        if way == "inside" and depth:
            return self._changed_inside(value, path, depth)
        change = getattr(self, "_" + way, self._drawn)
        return change(value, path)

    def _drawn(self, value, path):
        return self._drawer.drawn(path, value)

    def _recased(self, value, _path):
        return self._random.choice(_CASES)(value)

    def _changed_inside(self, value, path, depth):
        """Change some parts of a container."""
        if type(value) is dict:
            return self._changed_dict(value, path, depth)
        parts = list(value)
        steps = [step for step, _ in children(value)]
        for at in self._random.sample(range(len(steps)), self._few(len(steps))):
            parts[at] = self._changed(parts[at], (*path, steps[at]), depth - 1)
        return rebuilt(type(value), parts)

    def _changed_dict(self, value, path, depth):
        changed, record = dict(value), is_record(value)
        for key in self._random.sample(list(changed), self._few(len(changed))):
            step = "." + key if record else VALUES
            changed[key] = self._changed(changed[key], (*path, step), depth - 1)
        return changed

    def _few(self, count):
        return self._random.randint(1, count) if count else 0

    def _permuted(self, value, _path):
        parts = list(value.items()) if type(value) is dict else list(value)
        self._random.shuffle(parts)
        return rebuilt(type(value), parts)

    def _padded(self, value, path):
        """Return a text with many signs before it, behind it or both: what it says stands elsewhere."""
        summary = self._known.places.get(path)
        if summary is None or not value or summary.lengths[0] == summary.lengths[1]:
            return value
        signs = sorted(summary.alphabet)
        sign = self._random.choice([*value, self._random.choice(signs), _blank(value, signs)])
        count = min(self._drawer.grown(len(value), 0), MOST_SIGNS)
        filler = bytes([sign]) * count if type(value) is bytes else sign * count
        return self._random.choice((filler + value, filler + value, value + filler, filler + value + filler))

    def _resized(self, value, path):
        parts = list(value.items()) if type(value) is dict else list(value)
        length = self._drawer.length(path, len(parts))
        if length <= len(parts):
            kept = sorted(self._random.sample(range(len(parts)), length))
            return rebuilt(type(value), [parts[at] for at in kept])
        return rebuilt(type(value), parts + self._more(value, path, length - len(parts)))

    def _more(self, value, path, count):
        if type(value) is dict:
            drawn = [
                (self._drawer.drawn((*path, KEYS)), self._drawer.drawn((*path, VALUES))) for _ in range(count)
            ]
            return [] if is_record(value) else drawn
        if type(value) in (str, bytes):
            return [self._random.choice(list(value)) for _ in range(count)] if value else []
        return [self._drawer.drawn((*path, ITEMS)) for _ in range(count)]

    def _changed_array(self, array):
        """Return a numeric array with other items out of its own, in another order, or another length."""
        flat = list(range(array.size))
        if array.ndim == 1 and self._random.random() < 0.3:
            summary = [at for at in flat if self._random.random() < 0.7] or flat
            return array[summary].copy()
        if self._random.random() < 0.5:
            self._random.shuffle(flat)
        else:
            flat = [self._random.choice(flat) for _ in flat]
        return array.ravel()[flat].reshape(array.shape).copy() if flat else array


def is_plain(value):
    """Say whether a value is made of builtin containers and atoms (or is an array of numbers)."""
    kind = type(value)
    if kind in _ATOMS or kind in _TAKEN:
        return True
    if kind in _SEQUENCES:
        return all(map(is_plain, value))
    if kind is dict:
        return all(map(is_plain, value)) and all(map(is_plain, value.values()))
    return _array_type(value) is not None


def _array_type(value):
    numpy = sys.modules.get("numpy")
    if numpy is None or type(value) is not numpy.ndarray:
        return None
    return value.dtype if value.dtype.kind in "biuf" else None


def _share(args, kwargs):
    """Say whether two arguments are one mutable object: a copy of one would not be the other."""
    seen = [id(value) for value in (*args, *kwargs.values()) if type(value) in (list, dict, set)]
    return len(seen) != len(set(seen))


def _taken(others, top):
    """Return the argument of another call in a list, or an empty one."""
    args, kwargs = others
    if type(top) is str:
        return [kwargs[top]] if top in kwargs else []
    return [args[top]] if top < len(args) else []


_CONTAINER_WAYS = ("inside", "inside", "permuted", "resized", "drawn")
_WAYS = {
    list: _CONTAINER_WAYS,
    set: ("resized", "drawn"),
    frozenset: ("resized", "drawn"),
    tuple: ("inside", "inside", "permuted", "resized"),
    dict: ("inside", "inside", "resized", "permuted"),
    str: ("permuted", "resized", "drawn", "recased", "padded"),
    bytes: ("permuted", "resized", "drawn", "recased", "padded"),
}
#: Texts and bytes have these methods.
_CASES = tuple(map(operator.methodcaller, ("upper", "lower", "swapcase", "title")))


def _blank(value, signs):
    """Return a blank as a sign of a text or of bytes, where it may stand there."""
    blank = 32 if type(value) is bytes else " "
    return blank if blank in signs else signs[0]
