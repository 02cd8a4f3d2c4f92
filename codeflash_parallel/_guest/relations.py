"""What all observed calls of a target have in common: a derived input must not leave that ground.

Pure. A call is looked at position by position (an argument, the items of a list in it, a field of a tuple).
For each position its values are summed up (types, range, lengths, alphabet, keys), named properties that all
of them have are noted (sorted, distinct, ...), and so are relations between arguments (equal lengths, one
below the other, one inside the other). With little evidence this keeps more than it must: a rewrite may rely
on whatever every observed input had.
"""

import math
from collections import namedtuple

from . import properties

#: How deep a value is looked at, and how many items of one container.
_MAX_DEPTH, _MAX_ITEMS = 5, 400
#: Tuples longer than this have no fields, only items; dicts of strings up to this many keys are records.
_MAX_FIELDS = 12
#: So many decimal places of floats are looked for.
_MAX_DECIMALS = 6
#: Fewer different integers say nothing about their remainders.
_LEAST_DIFFERENT = 3

ITEMS, KEYS, VALUES = "items", "keys", "values"
SIZED = (list, tuple, set, frozenset, dict, str, bytes)
NUMBERS = (int, float)
#: What holds other values, and what does not.
NESTING = (list, tuple, set, frozenset, dict)
ATOMS = (str, bytes, bool, int, float, complex, type(None))

#: What is known of one position. `low`, `high`: of numbers; `step`: (remainder, modulus) of integers;
#: `decimals`: of floats, or None; `lengths`: allowed ones as (low, high); `alphabet`: of texts;
#: `form`: the runs of signs that all texts have, or None; `closed`: the only allowed values, or None; `keys`:
#: of dicts, or None; `names`: properties; `pool`: values that were observed.
Summary = namedtuple(  # noqa: PYI024 - typing is slow to import
    "Summary", "types low high step decimals lengths alphabet form closed keys names pool"
)


class Relations:
    """What all calls have in common: `places` by position, `pairs` between arguments."""

    def __init__(self, places, pairs):
        self.places, self.pairs = places, pairs

    def broken(self, args, kwargs):
        """Return the name of the first relation that an input breaks; empty if it keeps all."""
        found = positions(args, kwargs)
        for path, values in found.items():
            summary = self.places.get(path)
            if summary is None:
                return "a part where none was seen"
            for value in values:
                name = _broken(summary, value)
                if name:
                    return name
        kept = pairs_of(found)
        return next((name for name in self.pairs if name not in kept), "")


def infer(calls, constants=frozenset()):
    """Return what all calls have in common.

    Args:
        calls: (args, kwargs) of each.
        constants: texts that the code of the target knows: who gets one of them chooses among them.
    """
    gathered, pairs = {}, None
    for args, kwargs in calls:
        found = positions(args, kwargs)
        for path, values in found.items():
            gathered.setdefault(path, []).extend(values)
        own = pairs_of(found)
        pairs = own if pairs is None else pairs & own
    many = len(calls) > 1
    places = {path: _summary(values, constants, many) for path, values in gathered.items()}
    return Relations(places, pairs or frozenset())


def positions(args, kwargs):
    """Return the values of a call by position."""
    found = {}
    for number, value in enumerate(args):
        _visit(found, (number,), value, _MAX_DEPTH)
    for name, value in kwargs.items():
        _visit(found, (name,), value, _MAX_DEPTH)
    return found


def _visit(found, path, value, depth):
    found.setdefault(path, []).append(value)
    if depth:
        for step, child in children(value):
            _visit(found, (*path, step), child, depth - 1)
        if len(path) == 1:
            for name, child in _attributes(value):
                found.setdefault((*path, "." + name), []).append(child)


def children(value):
    """Return the parts of a container as pairs of a step and the part."""
    kind = type(value)
    if kind is tuple and len(value) <= _MAX_FIELDS:
        return list(enumerate(value))
    if kind in (list, tuple, set, frozenset):
        return [(ITEMS, item) for item in list(value)[:_MAX_ITEMS]]
    if kind is dict:
        if is_record(value):
            return [("." + key, item) for key, item in value.items()]
        pairs = list(value.items())[:_MAX_ITEMS]
        return [(KEYS, key) for key, _ in pairs] + [(VALUES, item) for _, item in pairs]
    return []


def is_record(value):
    """Say whether a dict looks like a record: a few texts as its keys."""
    return len(value) <= _MAX_FIELDS and all(type(key) is str for key in value)


def _attributes(value):
    """Return what plain things an object holds: arguments may stand in a relation to them."""
    if type(value).__module__ == "builtins":
        return []
    try:
        state = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return []
    return [(name, item) for name, item in state.items() if type(item) in SIZED or type(item) in NUMBERS]


# ---- one position


def _summary(values, constants, many):
    numbers = [v for v in values if type(v) in NUMBERS and math.isfinite(v)]
    texts = [v for v in values if type(v) in (str, bytes)]
    low, high = _range(numbers, many)
    return Summary(
        types=frozenset(map(type, values)),
        low=low,
        high=high,
        step=_step({v for v in numbers if type(v) is int}),
        decimals=_decimals([v for v in numbers if type(v) is float]),
        lengths=_lengths(values, many),
        alphabet=frozenset().union(*texts) if texts else frozenset(),
        form=_form(texts),
        closed=_closed(values, constants, many),
        keys=_keys([v for v in values if type(v) is dict]),
        names=properties.common(values),
        pool=values[:_MAX_ITEMS],
    )


def _range(numbers, many):
    if not numbers:
        return None, None
    low, high = min(numbers), max(numbers)
    if not many and low == high:
        # Of one call: what is not larger and has the same sign.
        low, high = min(low, _toward_zero(low)), max(high, _toward_zero(high))
    return low, high


def _toward_zero(number):
    if type(number) is float or number == 0:
        return number / 2
    return 1 if number > 0 else -1


def _step(integers):
    """Return (remainder, modulus) that all integers share."""
    if len(integers) < _LEAST_DIFFERENT:
        return (0, 1)
    least, modulus = min(integers), 0
    for number in integers:
        modulus = math.gcd(modulus, number - least)
    return (least % modulus, modulus)


def _decimals(floats):
    for places in range(_MAX_DECIMALS + 1):
        if floats and all(round(number, places) == number for number in floats):
            return places
    return None


def _lengths(values, many):
    """Return the allowed lengths: up to twice the largest where they vary, else the one that was seen."""
    lengths = {len(v) for v in values if type(v) in SIZED}
    if not lengths:
        return None
    low, high = min(lengths), max(lengths)
    fixed = low == high and (many or any(type(v) is tuple for v in values))
    return (low, high) if fixed else (min(low, 1), 2 * high)


def _form(texts):
    forms = {properties.kinds(text) for text in texts if type(text) is str}
    return next(iter(forms)) if len(forms) == 1 else None


def _closed(values, constants, many):
    """Return the only allowed values of a position where one chooses; None where one need not."""
    kinds = set(map(type, values))
    if kinds <= {bool, type(None)}:
        return frozenset(values)
    if kinds <= {str, type(None)}:
        same = many and len(set(values)) == 1
        return frozenset(values) if same or not constants.isdisjoint(values) else None
    return None


def _keys(dicts):
    keys = {frozenset(each) for each in dicts}
    return next(iter(keys)) if len(keys) == 1 else None


def _broken(summary, value):
    """Return the name of what a value breaks at its position."""
    if type(value) not in summary.types:
        return "type"
    if summary.closed is not None and value not in summary.closed:
        return "one of the observed values"
    name = _broken_number(summary, value) if type(value) in NUMBERS else _broken_container(summary, value)
    return name or properties.missing(summary.names, value)


def _broken_container(summary, value):
    kind = type(value)
    if kind in SIZED and not summary.lengths[0] <= len(value) <= summary.lengths[1]:
        return "length" if value else "non-empty"
    if kind in (str, bytes) and not summary.alphabet.issuperset(value):
        return "alphabet"
    if kind is str and summary.form is not None and properties.kinds(value) != summary.form:
        return "form of the text"
    if kind is dict and summary.keys is not None and frozenset(value) != summary.keys:
        return "key set"
    return ""


def _broken_number(summary, value):
    if not math.isfinite(value):
        return "" if value in summary.pool else "finite"
    if not summary.low <= value <= summary.high:
        return "sign" if (value < 0) != (summary.low < 0) and value else "range"
    if type(value) is int:
        remainder, modulus = summary.step
        off = value % modulus != remainder if modulus else value != remainder
        return "divisibility" if off else ""
    if summary.decimals is not None and round(value, summary.decimals) != value:
        return "decimal places" if summary.decimals else "whole numbers"
    return ""


# ---- between arguments


def pairs_of(found):
    """Return the names of all relations between the arguments of one call."""
    tops = {path: values[0] for path, values in found.items() if _is_top(path)}
    numbers = {path: v for path, v in tops.items() if type(v) in NUMBERS}
    lengths = {(*path, "length"): len(v) for path, v in tops.items() if type(v) in SIZED}
    kept = set(_orders({**numbers, **lengths}))
    kept.update(_memberships(tops))
    kept.update(_containments(tops))
    return frozenset(kept)


def _is_top(path):
    return len(path) == 1 or (len(path) == 2 and type(path[1]) is str and path[1][:1] == ".")


def _orders(numbers):
    items = list(numbers.items())
    for place, (one, left) in enumerate(items):
        for other, right in items[place + 1 :]:
            for sign, holds in (("<=", left <= right), (">=", left >= right)):
                if holds:
                    yield "%s %s %s" % (word(one), sign, word(other))


def _memberships(tops):
    items = [(path, value) for path, value in tops.items() if type(value) in SIZED]
    for one, left in tops.items():
        for other, right in items:
            if one != other and _is_inside(left, right):
                yield "%s in %s" % (word(one), word(other))


def _containments(tops):
    """Yield whose innermost parts all occur in another argument, as the nodes of a graph's edges do."""
    parts = {path: _innermost(value, _MAX_DEPTH) for path, value in tops.items() if type(value) in NESTING}
    for one, left in parts.items():
        for other, right in parts.items():
            if one != other and left <= right:
                yield "what is in %s is in %s" % (word(one), word(other))


def _innermost(value, depth):
    """Return the builtin atoms of a container; of a dict those of its keys and its values."""
    if type(value) not in NESTING or not depth:
        return frozenset([value]) if type(value) in ATOMS else frozenset()
    found = set()
    for part in (*value, *value.values()) if type(value) is dict else value:
        found |= _innermost(part, depth - 1)
    return found


def _is_inside(left, right):
    try:
        if type(right) is str:
            return type(left) is str and left in right
        return type(right) is not bytes and type(left) not in (list, dict, set) and left in right
    except Exception:  # an __eq__ of the project
        return False


def word(path):
    """Return a position in words."""
    return " ".join("argument %s" % part if not at else str(part) for at, part in enumerate(path))
