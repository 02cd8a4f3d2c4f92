"""Derive inputs from captured ones: resized, permuted, jittered, drawn, recombined. Pure.

An input is made from a captured one by changing some of its plain parts; what is no builtin container or
atom stays as it was captured. What was made is mended where that is easy (sorted again, made as long as
another argument) and then held against the relations: it keeps all of them, or the name of one that it
breaks goes with it.
"""

import copy
import decimal
import fractions
import sys

from . import relations
from .relations import ITEMS, KEYS, SIZED, VALUES

_ATOMS = frozenset({int, float, complex, str, bytes, bool, type(None)})
#: Types whose values are taken as they are from what was observed.
_TAKEN = frozenset({decimal.Decimal, fractions.Fraction})
_SEQUENCES = (list, tuple, set, frozenset)

#: How many of the inputs are wild.
_WILD = 0.15
#: Containers get no longer than this.
_MOST_ITEMS = 2_000


class Deriver:
    """Makes inputs.

    Args:
        known: the relations of all observed calls.
        random: source of everything drawn.
    """

    def __init__(self, known, random):
        self._known, self._random, self._wild = known, random, False

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
        self._wild = self._random.random() < _WILD
        for (top,) in self._some(places):
            holder = kwargs if type(top) is str else args
            holder[top] = self._argument(holder[top], top, others)
        if not self._wild:
            self._mend(args, kwargs)
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
        return self._changed(value, (top,), 3)

    # ---- one value

    def _changed(self, value, path, depth):
        """Return a value like this one, changed in one of the ways that its type knows."""
        array = _array_type(value)
        if array is not None:
            return self._changed_array(value)
        ways = _WAYS.get(type(value), ("draw",))
        way = self._random.choice(ways)
        if way == "inside" and depth:
            return self._changed_inside(value, path, depth)
        if way == "permute":
            return self._permuted(value)
        if way == "resize":
            return self._resized(value, path)
        return self.drawn(path, value)

    def _changed_inside(self, value, path, depth):
        """Change some parts of a container."""
        if type(value) is dict:
            return self._changed_dict(value, path, depth)
        parts = list(value)
        steps = [step for step, _ in relations.children(value)]
        for at in self._random.sample(range(len(steps)), self._few(len(steps))):
            parts[at] = self._changed(parts[at], (*path, steps[at]), depth - 1)
        return _made(type(value), parts)

    def _changed_dict(self, value, path, depth):
        changed, record = dict(value), relations.is_record(value)
        for key in self._random.sample(list(changed), self._few(len(changed))):
            step = "." + key if record else VALUES
            changed[key] = self._changed(changed[key], (*path, step), depth - 1)
        return changed

    def _few(self, count):
        return self._random.randint(1, count) if count else 0

    def _permuted(self, value):
        parts = list(value.items()) if type(value) is dict else list(value)
        self._random.shuffle(parts)
        return _made(type(value), parts)

    def _resized(self, value, path):
        parts = list(value.items()) if type(value) is dict else list(value)
        length = self._length(path, len(parts))
        if length <= len(parts):
            kept = sorted(self._random.sample(range(len(parts)), length))
            return _made(type(value), [parts[at] for at in kept])
        return _made(type(value), parts + self._more(value, path, length - len(parts)))

    def _more(self, value, path, count):
        if type(value) is dict:
            drawn = [(self.drawn((*path, KEYS)), self.drawn((*path, VALUES))) for _ in range(count)]
            return [] if relations.is_record(value) else drawn
        if type(value) in (str, bytes):
            return [self._random.choice(list(value)) for _ in range(count)] if value else []
        return [self.drawn((*path, ITEMS)) for _ in range(count)]

    def _length(self, path, current):
        summary = self._known.places.get(path)
        low, high = summary.lengths if summary is not None and summary.lengths else (current, current)
        low = 0 if self._wild else low
        # Small ones more often than large ones: the smallest example is shown.
        power = self._random.choice((1, 2))
        length = low + int((high - low + 1) * self._random.random() ** power)
        return min(length, _MOST_ITEMS)

    # ---- drawing by what was observed

    def drawn(self, path, like=None):
        """Return a new value for a position, of the kind of one that was observed there."""
        summary = self._known.places.get(path)
        if summary is None:
            return copy.deepcopy(like)
        model = self._random.choice(summary.pool)
        kind = type(model)
        if summary.closed is not None or kind not in _DRAWN or self._random.random() < 0.2:
            return copy.deepcopy(model)
        return _DRAWN[kind](self, summary, path, model)

    def _integer(self, summary, _path, model):
        if summary.low is None:
            return model
        low, high = int(summary.low), int(summary.high)
        if self._wild:
            return self._random.choice((0, -1, -high, low - 1, high + 1, 2 * high, 10 * high + 7))
        _, modulus = summary.step
        if modulus <= 1:
            return self._random.randint(low, high)
        return low + modulus * self._random.randint(0, (high - low) // modulus)

    def _float(self, summary, _path, model):
        if summary.low is None:
            return model
        if self._wild:
            return self._random.choice((0.0, -1.0, -summary.high, 10 * summary.high + 0.7, summary.low / 3))
        number = self._random.uniform(summary.low, summary.high)
        if summary.decimals is not None:
            number = round(number, summary.decimals)
        return number

    def _text(self, summary, path, model):
        if not summary.alphabet:
            return model
        if summary.form is not None and not summary.form.isalnum():
            return self._reformed(model)
        signs = sorted(summary.alphabet)
        length = self._length(path, len(model))
        if type(model) is bytes:
            return bytes(self._random.choice(signs) for _ in range(length))
        # The signs of one text mostly: words of a language, digits of a number.
        pool = list(model) if model and self._random.random() < 0.5 else signs
        return "".join(self._random.choice(pool) for _ in range(length))

    def _reformed(self, text):
        """Return a text of the same form: digits for digits, letters stay."""
        return "".join(self._random.choice("0123456789") if c.isdigit() else c for c in text)

    def _sequence(self, _summary, path, model):
        if type(model) is tuple:
            steps = relations.children(model)
            return tuple(self.drawn((*path, step), item) for step, item in steps)
        count = self._length(path, len(model))
        return _made(type(model), [self.drawn((*path, ITEMS)) for _ in range(count if model else 0)])

    def _mapping(self, summary, path, model):
        if relations.is_record(model):
            return {key: self.drawn((*path, "." + key), item) for key, item in model.items()}
        keys = list(model) if summary.keys is not None else self._keys(path, len(model))
        return {key: self.drawn((*path, VALUES)) for key in keys}

    def _keys(self, path, count):
        return [self.drawn((*path, KEYS)) for _ in range(self._length(path, count))]

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

    # ---- mending

    def _mend(self, args, kwargs):
        """Restore what is easily restored: orders inside arguments, lengths that go together."""
        for holder, places in ((args, range(len(args))), (kwargs, list(kwargs))):
            for place in places:
                holder[place] = self._mended(holder[place], (place,), 3)
        self._match_lengths(args)

    def _mended(self, value, path, depth):
        if type(value) not in (list, tuple) or not depth:
            return value
        steps = [step for step, _ in relations.children(value)]
        parts = [self._mended(item, (*path, step), depth - 1) for item, step in zip(value, steps)]
        parts += list(value)[len(steps) :]
        summary = self._known.places.get(path)
        return _made(type(value), _ordered(parts, summary.names) if summary is not None else parts)

    def _match_lengths(self, args):
        """Make two arguments equally long where they always were, and a number the length that it was."""
        for one, value in enumerate(args):
            for other in range(one + 1, len(args)):
                self._match(args, one, other, value)

    def _match(self, args, one, other, value):
        pairs, size, second = self._known.pairs, relations.word((one, "length")), args[other]
        length = relations.word((other, "length"))
        if (
            type(second) in (list, str)
            and {"%s <= %s" % (size, length), "%s >= %s" % (size, length)} <= pairs
        ):
            least = min(len(args[one]), len(second))
            args[one], args[other] = value[:least] if type(value) in (list, str) else value, second[:least]
        number = relations.word((other,))
        is_length = {"%s >= %s" % (number, size), "%s <= %s" % (number, size)} <= pairs
        if is_length and type(second) is int and type(value) in SIZED:
            args[other] = len(value)


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


def _ordered(parts, names):
    try:
        if "distinct" in names or "strictly sorted" in names:
            parts = list({repr(part): part for part in parts}.values())
        if "sorted" in names or "strictly sorted" in names:
            return sorted(parts)
        if "sorted downwards" in names:
            return sorted(parts, reverse=True)
        if "sorted by the first field" in names:
            return sorted(parts, key=lambda row: row[0])
        if "sorted by the last field" in names:
            return sorted(parts, key=lambda row: row[-1])
    except TypeError:  # parts of several types
        return parts
    return parts


def _made(kind, parts):
    if kind is str:
        return "".join(parts)
    # Other calls may have a list where this one has a set: what was drawn need not fit into it.
    return kind(filter(_is_hashable, parts) if kind in (set, frozenset) else parts)


def _is_hashable(value):
    try:
        hash(value)
    except TypeError:
        return False
    return True


_CONTAINER_WAYS = ("inside", "inside", "permute", "resize", "draw")
_WAYS = {
    list: _CONTAINER_WAYS,
    set: ("resize", "draw"),
    frozenset: ("resize", "draw"),
    tuple: ("inside", "inside", "permute", "resize"),
    dict: ("inside", "inside", "resize", "permute"),
    str: ("permute", "resize", "draw"),
    bytes: ("permute", "resize", "draw"),
}
_DRAWN = {
    int: Deriver._integer,
    float: Deriver._float,
    str: Deriver._text,
    bytes: Deriver._text,
    list: Deriver._sequence,
    tuple: Deriver._sequence,
    set: Deriver._sequence,
    frozenset: Deriver._sequence,
    dict: Deriver._mapping,
}
