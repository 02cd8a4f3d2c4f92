"""What all observed calls of a target have in common: a derived input must not leave that ground.

Pure. A call is looked at position by position, and what the values of each have in common is noted
(`summaries`), and so are relations between arguments (equal lengths, one below the other, one inside the
other). Ranges, lengths and alphabets are not: truncations and special cases hide behind them.
"""

from .argument_positions import MAX_DEPTH, NUMBERS, SIZED, positions, word
from .position_summaries import broken_by, summary_of, with_answers

#: What holds other values, and what does not.
_NESTING = (list, tuple, set, frozenset, dict)
_ATOMS = (str, bytes, bool, int, float, complex, type(None))


class CallRelations:
    """What all calls have in common: `places` by position, `pairs` between arguments."""

    def __init__(self, places, pairs):
        self.places, self.pairs = places, pairs

    def broken(self, args, kwargs):
        """Return the name of the first relation that an input breaks; empty if it keeps all."""
        return self.broken_by(positions(args, kwargs))

    def broken_by(self, found):
        """Return the same of values by position."""
        for path, values in found.items():
            summary = self.places.get(path)
            if summary is None:
                return "a part where none was seen"
            for value in values:
                name = broken_by(summary, value)
                if name:
                    return name
        kept = pairs_of(found)
        return next((name for name in self.pairs if name not in kept), "")


def infer(calls, optional=frozenset(), called=frozenset()):
    """Return what all calls, (args, kwargs) of each, have in common.

    Args:
        optional: last steps of positions that the code itself expects to be empty now and then.
        called: parameters that the code calls, by position and by name.
    """
    gathered, pairs = {}, None
    for args, kwargs in calls:
        found = positions(args, kwargs)
        for path, values in found.items():
            gathered.setdefault(path, []).extend(values)
        own = pairs_of(found)
        pairs = own if pairs is None else pairs & own
    many = len(calls) > 1
    places = {
        path: summary_of(values, many, may_be_empty=path[-1] in optional) for path, values in gathered.items()
    }
    uncalled = {
        path: with_answers(place)
        for path, place in places.items()
        if path in called and place.types == {type(None)}
    }
    return CallRelations({**places, **uncalled}, pairs or frozenset())


# ---- between arguments


def pairs_of(found):
    """Return the names of all relations between the arguments of one call."""
    tops = {path: values[0] for path, values in found.items() if _is_top(path)}
    numbers = {path: v for path, v in tops.items() if type(v) in NUMBERS}
    lengths = {(*path, "length"): len(v) for path, v in tops.items() if type(v) in SIZED}
    kept = set(_orders(numbers))
    kept.update(_sizes(numbers, lengths))
    kept.update(_memberships(tops))
    kept.update(_containments(tops))
    return frozenset(kept).union(_indexes(found, {**numbers, **lengths}))


def _is_top(path):
    return len(path) == 1 or (len(path) == 2 and type(path[1]) is str and path[1][:1] == ".")


def _orders(numbers):
    items = list(numbers.items())
    for place, (one, left) in enumerate(items):
        for other, right in items[place + 1 :]:
            for sign, holds in (("<=", left <= right), (">=", left >= right)):
                if holds:
                    yield "%s %s %s" % (word(one), sign, word(other))


def _sizes(numbers, lengths):
    """Yield which lengths are equal, and which numbers are one or count from the start of what has it."""
    for one, left in {**lengths, **numbers}.items():
        for other, right in lengths.items():
            if left == right and one != other:
                yield "%s = %s" % (word(one), word(other))
            if one in numbers and 0 <= left < right:
                yield "%s inside %s" % (word(one), word(other))


def _memberships(tops):
    items = [(path, value) for path, value in tops.items() if type(value) in SIZED]
    for one, left in tops.items():
        for other, right in items:
            if one != other and _is_inside(left, right):
                yield "%s in %s" % (word(one), word(other))


def _containments(tops):
    """Yield whose innermost parts all occur in another argument, as the nodes of a graph's edges do."""
    parts = {path: _innermost(value, MAX_DEPTH) for path, value in tops.items() if type(value) in _NESTING}
    for one, left in parts.items():
        for other, right in parts.items():
            if one != other and left <= right:
                yield "what is in %s is in %s" % (word(one), word(other))


def _indexes(found, sizes):
    """Yield whose whole numbers stay below a number or length and reach half of it, as a graph's nodes do.

    Items below the length of their own list are no nodes: tests have many such lists by chance.
    """
    for path, values in found.items():
        whole = [value for value in values if type(value) is int]
        if not _is_top(path) and whole and min(whole) >= 0:
            for other, size in sizes.items():
                if max(whole) < size <= 2 * max(whole) and other[:-1] != path[:-1]:
                    yield "%s below %s" % (word(path), word(other))


def _innermost(value, depth):
    """Return the builtin atoms of a container; of a dict those of its keys and its values."""
    if type(value) not in _NESTING or not depth:
        return frozenset([value]) if type(value) in _ATOMS else frozenset()
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
