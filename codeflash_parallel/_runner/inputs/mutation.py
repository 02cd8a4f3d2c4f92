"""Make fresh inputs of captured ones: other sizes, orders and values, constants of the code. Pure.

One part of a call is drawn level by level and changed; what holds it is made again around it, in the order
that all observed values have. What comes of it is held against the relations afterwards (`relations`).
"""

import contextlib
import copy
import decimal
import fractions
import html
import math
import operator
import re
import sys
import types

from .call_relations import (
    ITEMS,
    KEYS,
    SIZED,
    VALUES,
    broken_by,
    children,
    is_bounded,
    is_fields,
    is_record,
    rebuilt,
    word,
)
from .input_objects import ObjectConstructors

_ATOMS = frozenset({int, float, complex, str, bytes, bool, type(None), decimal.Decimal, fractions.Fraction})
_CONTAINERS = (list, tuple, set, frozenset)
_CALLABLES = (type, types.FunctionType, types.BuiltinFunctionType, types.MethodType)
#: How deep the parts of an argument are changed.
_DEPTH = 4
#: Sizes grow up to so many times the observed one; to so many items that are made, and signs.
_GROWTH, _MOST_ITEMS, _MOST_SIGNS = 100, 2_000, 100_000
#: More items than these are repeated; how often a single one is.
_MADE_ITEMS, _ONE_ITEM = 200, 0.15
#: How many inputs have a longer argument and no other change; elsewhere mostly a part of one is changed.
_LONGER = 0.1
#: How many inputs are left as they come: no order is restored in them.
_WILD = 0.15
#: How many inputs have keywords in another order, and, where any will do, more of these.
_KEYWORDS, _NAMES = 0.1, ("a", "b", "z")
#: How often a part that the code itself expects to be empty at times is.
_EMPTY = 0.2
#: How many inputs have a part of another type.
_MISTYPED = 0.08
#: Signs that code tends to treat in a way of their own.
_SIGNS = (*" \t\n\r\f-_.,;:/éßİ0aA\0", "  ")
#: The same text in another form; in the last one tags are no tags, and what stands for a sign is text.
_FORMS = (*map(operator.methodcaller, ("upper", "lower", "swapcase", "title")), html.escape)


class Mutator:
    """Makes inputs.

    Args:
        known: the relations of all observed calls.
        chance: source of everything drawn.
        constants: numbers and texts of the code: special cases for them are found by them.
        any_keyword: whether the function takes keywords of any name.

    Attributes:
        is_made: whether objects in the last input are such as their classes may make.
    """

    def __init__(self, known, chance, constants=(), *, any_keyword=False):
        self._known, self._chance, self._constants = known, chance, tuple(constants)
        self._any_keyword = any_keyword
        self._constructors = ObjectConstructors(self._observed_values)
        self._constant, self._offset, self._wild, self._odd = None, None, False, False
        self.is_made = True

    def mutate(self, args, kwargs, others, constant=None, offset=None, size=None):
        """Return other (args, kwargs); None where two arguments are one object, or none has a size.

        Args:
            args, kwargs: of a captured call, loaded for this: objects in them are changed.
            others: (args, kwargs) of another captured call, to take whole arguments from.
            constant: a number or text to be put in; None: whatever comes.
            offset: what is added to a number, which then is a value or a size as it stands; None: drawn.
            size: that one of the arguments gets, with no other change; None: whatever comes.
        """
        places = [*range(len(args)), *kwargs]
        if not places or _share(args, kwargs):
            return None
        args, kwargs = list(args), dict(kwargs)
        self._wild, self._constant, self._offset = self._chance.random() < _WILD, constant, offset
        self._odd, self.is_made = constant is None and self._chance.random() < _MISTYPED, True
        holders = {**dict.fromkeys(range(len(args)), args), **dict.fromkeys(kwargs, kwargs)}
        sizes = {top: len(holder[top]) for top, holder in holders.items() if _is_sized(holder[top])}
        if size is not None and not (any(sizes.values()) and 0 <= size <= _MOST_SIGNS):
            return None
        if size is not None or (constant is None and any(sizes.values()) and self._chance.random() < _LONGER):
            # Options are short; what they are for is longer.
            top = self._chance.choices(list(sizes), list(sizes.values()))[0]
            wanted = self._grown(sizes[top]) if size is None else size
            holders[top][top] = self._ordered(self._of_size(holders[top][top], (top,), wanted), (top,))
        else:
            count = self._chance.choice((1, 1, 1, 2, 3)) if offset is None else 1
            for top in self._chance.choices(places, k=count):
                holders[top][top] = self._argument(holders[top][top], top, others)
                self._constant = None
        if not self._wild:
            self._match_lengths(args)
        return tuple(args), self._keywords(args, kwargs)

    def _keywords(self, args, kwargs):
        """Return keywords, now and then more of them where any will do, and in another order."""
        values = [*args, *kwargs.values()]
        if self._any_keyword and self._chance.random() < _KEYWORDS:
            names = self._chance.sample(_NAMES, self._chance.randint(1, len(_NAMES)))
            kwargs = {**{name: self._chance.choice(values) for name in names}, **kwargs}
        if self._chance.random() < _KEYWORDS:
            kwargs = dict(reversed(kwargs.items()))
        return kwargs

    def _argument(self, value, top, others):
        taken = _taken(others, top)
        if taken and self._constant is None and _is_free(taken[0]) and self._chance.random() < 0.2:
            return taken[0]
        return self._changed(value, (top,), _DEPTH)

    def _changed(self, value, path, depth):
        """Return a value with one part changed, or changed as a whole."""
        if _is_text(value):
            return _of_kind(value, self._changed(str.__str__(value), path, depth))
        parts = children(value) if depth else []
        if parts and self._chance.random() < 0.6:
            return self._inside(value, path, parts, depth)
        if self._odd and is_plain(value):
            self._odd = False
            return self._mistyped(value)
        constant = self._constant
        if constant is None and self._constants and self._chance.random() < 0.2:
            constant = self._chance.choice(self._constants)
        if constant is not None:
            return self._with_constant(value, path, constant)
        return self._ordered(self._whole(value, path), path)

    def _inside(self, value, path, parts, depth):
        at = self._chance.randrange(len(parts))
        step, part = parts[at]
        new = self._changed(part, (*path, step), depth - 1)
        if type(value) is dict:
            key = list(value)[at if is_record(value) else at % (len(parts) // 2)]
            return _renamed(value, key, new) if step is KEYS else {**value, key: new}
        if type(value) in _CONTAINERS:
            items = list(value)
            items[at] = new
            return self._ordered(rebuilt(type(value), items), path)
        if isinstance(value, tuple):
            return value._replace(**{step[1:]: new})
        made, is_made = self._constructors.changed(value, step[1:], new)
        self.is_made &= is_made
        return made

    def _observed_values(self):
        return (value for place in self._known.places.values() for value in place.pool)

    def _whole(self, value, path):
        place = self._known.places.get(path)
        may_be_empty = place is not None and place.may_be_empty and type(value) in SIZED
        if may_be_empty and self._chance.random() < _EMPTY:
            return type(value)()
        if _is_array(value):
            return self._array(value)
        way = _WAYS.get(type(value))
        return self._observed(value, path) if way is None or is_fields(value) else way(self, value, path)

    def _mistyped(self, value):
        """Return a value of another type, as nearly the same as there is one."""
        others = [None, 1, 1.5, "x", b"x", value is None]
        others += [[], {}] if type(value) in (list, dict) else []
        others += [value.encode("utf-8", "replace")] * 4 if type(value) is str else []
        return self._chance.choice([other for other in others if type(other) is not type(value)])

    def _match(self, match, path):
        """Return what the pattern finds in another text, or the same text by a pattern with a group more."""
        if type(match.string) is not str or self._chance.random() < 0.5:
            return match.re.search(self._whole(match.string, path), match.pos) or match
        letters = [at for at, sign in enumerate(match.re.pattern) if sign.isalnum()]
        at = self._chance.choice(letters or [0])
        pattern = "%s(%s)%s" % (
            match.re.pattern[:at],
            match.re.pattern[at : at + 1],
            match.re.pattern[at + 1 :],
        )
        with contextlib.suppress(re.error):  # inside the name of a group, say
            return re.compile(pattern, match.re.flags).search(match.string, match.pos, match.endpos) or match
        return match

    def _flag(self, value, path):
        return self._chance.choice((not value, self._observed(value, path)))

    def _bytes(self, value, path):
        return self._text(value.decode("latin-1"), path).encode("latin-1", "replace")

    def _observed(self, value, path):
        """Return what was observed at this place, in this call or another one."""
        place = self._known.places.get(path)
        other = self._chance.choice(place.pool) if place is not None else value
        return copy.deepcopy(other) if _is_free(other) else value

    # ---- numbers and texts

    def _number(self, value, path):
        place, draw = self._known.places.get(path), self._chance.random()
        if draw < 0.4 or place is None or place.low is None or not is_bounded(value):
            tenth = value // 10 if type(value) is int else value / 10
            near = (value + 1, value - 1, value * 10, tenth, -value, type(value)(0))
            is_free = self._wild or place is None
            return self._chance.choice([n for n in near if is_free or not broken_by(place, n)] or near)
        if draw < 0.6:
            return self._observed(value, path)
        reach = (place.high - place.low or abs(place.high) or 1) * self._chance.choice((0.1, 1, 10, 1000))
        low = place.low - reach if place.low < 0 else min(place.low, 1)
        number = self._chance.uniform(low, place.high + reach if place.high > 0 else place.high)
        return type(value)(number if place.decimals is None else round(number, place.decimals))

    def _text(self, text, path):
        return self._other_text(text, path)[: max(len(text), _MOST_SIGNS)]

    def _other_text(self, text, path):
        place, draw = self._known.places.get(path), self._chance.random()
        if place is not None and place.length == 1:
            return self._chance.choice(_SIGNS[:-1])
        if draw < 0.3:
            return self._resized(text, path)
        if draw < 0.5:
            return self._chance.choice(_FORMS)(text)
        if draw < 0.75:
            return self._with_sign(text)
        if draw < 0.9:
            return "".join(self._reordered(list(text)))
        other = self._observed(text, path)
        return other if type(other) is str else text

    def _with_sign(self, text):
        """Insert a sign somewhere, or put it in the place of another, everywhere."""
        sign = self._chance.choice(_SIGNS)
        draw = self._chance.random() if text else 1
        if draw < 0.2:
            return text.replace(self._chance.choice(text), sign)
        if draw < 0.5:
            return self._exchanged(text, sign)
        count = self._grown(len(text)) if self._chance.random() < 0.1 else 1
        return self._inserted(text, (sign * count)[: _MOST_SIGNS - len(text)])

    def _exchanged(self, text, sign):
        """Put another sign in the place of one: its neighbour in ASCII, one of the text, or this one."""
        at = self._chance.randrange(len(text))
        code = ord(text[at])
        near = [chr(other) for other in (code - 1, code + 1) if 32 < other < 127]
        return text[:at] + self._chance.choice([*near, self._chance.choice(text), sign]) + text[at + 1 :]

    # ---- sizes and orders

    def _container(self, value, path):
        if self._chance.random() < 0.5:
            return self._resized(value, path)
        parts = list(value.items()) if type(value) is dict else list(value)
        return rebuilt(type(value), self._reordered(parts))

    def _reordered(self, parts):
        way, parts = self._chance.randrange(3), list(parts)
        if way == 0:
            self._chance.shuffle(parts)
        at = self._chance.randint(0, len(parts))
        return parts[::-1] if way == 1 else parts[at:] + parts[:at]

    def _grown(self, size):
        """Return a larger size, up to a hundred times: any order as often."""
        low, high = math.log(max(2, size)), math.log(_GROWTH * max(1, size))
        return int(math.exp(self._chance.uniform(low, high)))

    def _resized(self, value, path):
        size = len(value)
        draw = self._chance.random()
        wanted = 0 if draw < 0.05 else self._grown(size) if draw < 0.45 else self._chance.randint(0, 2 * size)
        return self._of_size(value, path, wanted)

    def _of_size(self, value, path, wanted):
        """Return a container or text of a size: some parts left out, or others behind or before them."""
        if type(value) is dict:
            return self._mapping(value, path, wanted)
        if type(value) is bytes:
            return self._of_size(value.decode("latin-1"), path, wanted).encode("latin-1")
        parts, size, is_text = list(value), len(value), type(value) is str
        wanted = min(wanted, _MOST_SIGNS if is_text else _MOST_ITEMS)
        if wanted <= size:
            kept = sorted(self._chance.sample(range(size), wanted))
            return rebuilt(type(value), [parts[at] for at in kept])
        # Lists of one type, and of several: some code is only right for those.
        kinds = {str} if is_text else set(map(type, value)) if self._chance.random() < 0.5 else ()
        if is_text and size and self._chance.random() < 0.4:
            glue = self._chance.choice(("", *(sign for sign in value if not sign.isalnum())))
            return (value + glue) * (wanted // size) + value[: wanted % size]
        is_one = self._chance.random() < _ONE_ITEM
        more = [
            self._chance.choice(value or "a") if is_text else self._item(path, kinds)
            for _ in range(1 if is_one else min(wanted - size, _MADE_ITEMS))
        ]
        more = (more * ((wanted - size) // len(more) + 1))[: wanted - size]
        # Code that looks at the beginning only is not found by new items behind the old ones.
        return rebuilt(type(value), more + parts if self._chance.random() < 0.5 else parts + more)

    def _item(self, path, kinds):
        """Return one more item for a text or container, of one of some types where there are such items."""
        place = self._known.places.get((*path, ITEMS))
        if place is None:
            return "a" if kinds == {str} else 0
        alike = [item for item in place.pool if type(item) in kinds]
        item = copy.deepcopy(self._chance.choice(alike or place.pool))
        if self._chance.random() < 0.5:
            return item
        changed = self._changed(copy.deepcopy(item), (*path, ITEMS), 1)
        # One of a thousand items would break the relation of all.
        fits = (type(changed) is type(item) or not kinds) and not broken_by(place, changed)
        return changed if self._wild or fits else item

    def _mapping(self, value, path, wanted):
        items = list(value.items())
        if wanted <= len(items) or is_record(value):
            return dict(self._chance.sample(items, min(wanted, len(items))))
        more = min(wanted, _MADE_ITEMS) - len(items)
        keys, values = (self._known.places.get((*path, step)) for step in (KEYS, VALUES))
        if keys is None or values is None:
            return value
        drawn = [(self._chance.choice(keys.pool), self._chance.choice(values.pool)) for _ in range(more)]
        return {**{self._whole(key, (*path, KEYS)): copy.deepcopy(item) for key, item in drawn}, **value}

    def _array(self, array):
        """Return a numeric array with other items out of its own, in another order, or another length."""
        flat = list(range(array.size))
        if array.ndim == 1 and self._chance.random() < 0.3:
            kept = [at for at in flat if self._chance.random() < 0.7] or flat
            return array[kept].copy()
        if self._chance.random() < 0.5 or len(set(array.ravel().tolist())) == array.size:
            self._chance.shuffle(flat)  # what is distinct stays so
        else:
            flat = [self._chance.choice(flat) for _ in flat]
        return array.ravel()[flat].reshape(array.shape).copy() if flat else array

    # ---- constants of the code

    def _with_constant(self, value, path, constant):
        """Put a constant in: a number as a value, a size or a sign, a text as a whole, a part or an item."""
        kind = type(value)
        if kind is bytes:
            return self._with_constant(value.decode("latin-1"), path, constant).encode("latin-1", "replace")
        if type(constant) is int:
            return self._with_number(value, path, constant)
        if kind is str:
            return self._chance.choice((constant, self._inserted(value, constant)))
        if kind in _CONTAINERS and value and all(type(item) is str for item in value):
            return rebuilt(kind, [*value, constant])
        return value

    def _with_number(self, value, path, constant):
        kind = type(value)
        number = constant + (self._chance.choice((-1, 0, 1)) if self._offset is None else self._offset)
        if kind in (int, float):
            return kind(number) if abs(number) < 1 << 63 else value
        if (
            kind is str
            and (31 < number < 0xD800 or 0xE000 <= number <= 0x10FFFF)
            and self._offset is None
            and self._chance.random() < 0.3
        ):
            return self._inserted(value, chr(number))
        if kind in SIZED and not is_fields(value):
            size = number * (self._chance.choice((1, 1, 1, 2, 3)) if self._offset is None else 1)
            return (
                self._ordered(self._of_size(value, path, size), path) if 0 <= size <= _MOST_SIGNS else value
            )
        if kind in _WAYS or is_plain(value):
            return value
        # What can be calculated with: fractions, expressions.
        return self._chance.choice((operator.pow, operator.mul, operator.add))(value, number)

    def _inserted(self, text, part):
        at = self._chance.choice((0, len(text), self._chance.randint(0, len(text))))
        return text[:at] + part + text[at:]

    # ---- what is easily kept

    def _ordered(self, value, path):
        """Restore the order that all observed values of a place have."""
        place = self._known.places.get(path)
        if self._wild or place is None or type(value) not in (list, tuple):
            return value
        names, parts = place.names, list(value)
        try:
            if "distinct" in names or "strictly sorted" in names:
                once = list({repr(part): part for part in parts}.values())
                parts = once + _others(once, len(parts) - len(once))
            for name, key in _ORDERS.items():
                if name in names:
                    parts.sort(key=key, reverse=name == "sorted downwards")
                    break
        except (TypeError, LookupError):  # parts of several types, or without a field
            pass
        return rebuilt(type(value), parts)

    def _match_lengths(self, args):
        """Make two arguments equally long where they always were, and a number the length that it was."""
        for one, value in enumerate(args):
            if type(value) not in (list, str, bytes):
                continue
            size = word((one, "length"))
            for other, second in enumerate(args):
                if other > one and type(second) in (list, str, bytes) and second:
                    if self._are_equal(size, word((other, "length"))):
                        args[other] = (second * (len(value) // len(second) + 1))[: len(value)]
                elif type(second) is int and self._are_equal(size, word((other,))):
                    args[other] = len(value)

    def _are_equal(self, one, other):
        return not {"%s = %s" % (one, other), "%s = %s" % (other, one)}.isdisjoint(self._known.pairs)


_ORDERS = {
    "strictly sorted": None,
    "sorted": None,
    "sorted downwards": None,
    "sorted by the first field": operator.itemgetter(0),
    "sorted by the last field": operator.itemgetter(-1),
}


_WAYS = {
    int: Mutator._number,
    float: Mutator._number,
    bool: Mutator._flag,
    str: Mutator._text,
    bytes: Mutator._bytes,
    re.Match: Mutator._match,
    **dict.fromkeys((*_CONTAINERS, dict), Mutator._container),
}


def is_plain(value):
    """Return whether a value is made of builtin containers and atoms (or is an array of numbers)."""
    kind = type(value)
    if kind in _ATOMS:
        return True
    if kind in _CONTAINERS:
        return all(map(is_plain, value))
    if kind is dict:
        return all(map(is_plain, value)) and all(map(is_plain, value.values()))
    return _is_array(value)


def _is_text(value):
    """Return whether a value is a text of a class of the project's own (members of enumerations apart)."""
    return isinstance(value, str) and type(value) is not str and not hasattr(type(value), "__members__")


def _of_kind(value, text):
    """Return a text as one of the class of another, with the attributes of that."""
    if type(text) is not str:
        return value
    made = str.__new__(type(value), text)
    with contextlib.suppress(AttributeError):
        made.__dict__.update(value.__dict__)
    return made


def _is_free(value):
    """Return whether a value may stand in another call as well: it knows no other objects of its own."""
    return isinstance(value, _CALLABLES) or is_plain(value)


def _is_sized(value):
    return type(value) in SIZED and not is_fields(value)


def _is_array(value):
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(value) is numpy.ndarray and value.dtype.kind in "biuf"


def _share(args, kwargs):
    """Return whether two arguments are one mutable object: a copy of one would not be the other."""
    seen = [id(value) for value in (*args, *kwargs.values()) if type(value) in (list, dict, set)]
    return len(seen) != len(set(seen))


def _taken(others, top):
    """Return the argument of another call in a list, or an empty one."""
    args, kwargs = others
    if type(top) is str:
        return [kwargs[top]] if top in kwargs else []
    return [args[top]] if top < len(args) else []


def _others(parts, count):
    """Return so many numbers or texts that are not among some; none where there are parts of other types."""
    kinds = set(map(type, parts))
    if kinds == {int}:
        return list(range(max(parts) + 1, max(parts) + 1 + count))
    return ["%s%d" % (max(parts), number) for number in range(count)] if kinds == {str} else []


def _renamed(value, key, new):
    return {new if other is key else other: item for other, item in value.items()}
