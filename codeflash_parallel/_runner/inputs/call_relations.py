"""Relations that all observed calls of a target have in common; a derived input counts if it keeps them.

Pure. A call is split into positions (an argument, the items of a list, a field of a tuple). Of each position
the common types, signs, lengths, keys and named properties are summed up, and relations between arguments are
noted (equal lengths, one at most the other, a number at most a length, one inside the other). Ranges, lengths
of texts and alphabets are not: truncations and special cases hide behind them.
"""

import os
from collections import namedtuple

from .input_objects import ANSWERS

#: How deep a value is looked at, and how many items of one container.
MAX_DEPTH, MAX_ITEMS = 5, 400
#: Tuples longer than this have no fields, only items; dicts of strings up to this many keys are records.
_MAX_FIELDS = 12

ITEMS, KEYS, VALUES = "items", "keys", "values"
SIZED = (list, tuple, set, frozenset, dict, str, bytes)
NUMBERS = (int, float)


def positions(args, kwargs):
    """Return the values of a call by position."""
    found = {}
    for number, value in enumerate(args):
        _visit(found, (number,), value, MAX_DEPTH)
    for name, value in kwargs.items():
        _visit(found, (name,), value, MAX_DEPTH)
    return found


def _visit(found, path, value, depth):
    found.setdefault(path, []).append(value)
    if depth:
        for step, child in children(value):
            _visit(found, (*path, step), child, depth - 1)


def children(value):
    """Return the parts of a container as pairs of a step and the part."""
    kind = type(value)
    if is_fields(value):
        return list(enumerate(value))
    if kind in (list, tuple, set, frozenset):
        return [(ITEMS, item) for item in list(value)[:MAX_ITEMS]]
    if kind is dict:
        if is_record(value):
            return [("." + key, item) for key, item in value.items()]
        pairs = list(value.items())[:MAX_ITEMS]
        return [(KEYS, key) for key, _ in pairs] + [(VALUES, item) for _, item in pairs]
    return [("." + name, item) for name, item in _attributes(value)]


def is_fields(value):
    """Return whether a tuple looks like a record: each of its items has a place of its own."""
    return type(value) is tuple and len(value) <= _MAX_FIELDS


def is_record(value):
    """Return whether a dict looks like a record: a few texts as its keys."""
    return len(value) <= _MAX_FIELDS and all(type(key) is str for key in value)


def _attributes(value):
    """Return the plain public attributes of an object, a named tuple's fields included."""
    kind = type(value)
    if kind.__module__ == "builtins":
        return []
    try:
        names = list(object.__getattribute__(value, "__dict__"))
    except AttributeError:
        names = getattr(kind, "_fields", None) or getattr(kind, "__slots__", ())
    names = [name for name in names if name[:1] != "_"] if type(names) in (list, tuple) else []
    found = [(name, _attribute(value, name)) for name in names]
    return [(name, item) for name, item in found if type(item) in _HELD]


def _attribute(value, name):
    try:
        return object.__getattribute__(value, name)
    except AttributeError:  # an empty slot
        return None


#: What an object may hold to be looked into.
_HELD = (*SIZED, *NUMBERS, bool, type(None))


def size_of(found):
    """Return the length of the longest container or text among the values of a call by position."""
    return max(
        (len(value) for values in found.values() for value in values if type(value) in SIZED), default=0
    )


def word(path):
    """Return a position in words."""
    return " ".join("argument %s" % part if not at else str(part) for at, part in enumerate(path))


def rebuilt(kind, parts):
    """Put a container or text of some type together from its parts."""
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


#: These come about by chance where there are few items: one value that has them is long enough, or two do.
_BY_CHANCE, _LONG = frozenset(("a permutation", "indexes", "rows of indexes", "square")), 4


def _common_properties(values):
    """Return the names of properties that every value has which says something, and at least one does."""
    return tuple(name for name, test in _PROPERTIES.items() if _all_have(name, test, values))


def _all_have(name, test, values):
    answers = [_answer(test, value) for value in values]
    having = [value for value, answer in zip(values, answers) if answer]
    by_chance = name in _BY_CHANCE and len(having) == 1 and not _is_long(having[0])
    return False not in answers and bool(having) and not by_chance


def _is_long(value):
    return type(value) in (list, tuple) and len(value) >= _LONG


def _missing_property(names, value):
    """Return the first of some properties that a value has not; empty if it has all."""
    return next((name for name in names if _answer(_PROPERTIES[name], value) is False), "")


def _answer(test, value):
    """Return True or False; None where a value says nothing (a list of one item has no order)."""
    try:
        return test(value)
    except Exception:  # items that cannot be compared or hashed
        return None


def _of_items(holds):
    """Return a test of sequences of two items and more."""
    return lambda value: holds(value) if type(value) in (list, tuple) and len(value) > 1 else None


def _of_rows(holds):
    """Return a test of sequences of sequences, none of them empty."""

    def test(value):
        if type(value) not in (list, tuple) or not value:
            return None
        return holds(value) if all(type(row) in (list, tuple) and row for row in value) else None

    return test


def _is_ordered(items):
    return all(one <= other for one, other in zip(items, items[1:]))  # noqa: RUF007 - Python 3.9


def _is_ordered_by(field):
    return _of_rows(lambda rows: _is_ordered([row[field] for row in rows]) if len(rows) > 1 else None)


def _is_distinct(items):
    return len({_frozen(item) for item in items}) == len(items)


def _frozen(item):
    return tuple(map(_frozen, item)) if type(item) is list else item


def _are_whole(items):
    return all(type(item) is int for item in items)


def _are_own_indexes(items):
    return all(-1 <= item < len(items) for item in items) if _are_whole(items) else None


def _are_neighbours(rows):
    """Return whether rows are lists of neighbours: each item of each row is the number of a row."""
    if not all(type(row) in (list, tuple, set) for row in rows):
        return None
    flat = [item for row in rows for item in row]
    return _are_whole(flat) and all(0 <= item < len(rows) for item in flat) if flat else None


def _is_permutation(items):
    numbers = [*range(len(items) + 1)]
    return sorted(items) in (numbers[:-1], numbers[1:]) if _are_whole(items) else None


def _is_graph(value):
    """Return whether a dict is a graph: each item in its values (first field of a weighted edge) is a key."""
    if type(value) is not dict or not value:
        return None
    if not all(type(items) in (list, tuple, set, dict) for items in value.values()):
        return None
    nodes = (item[0] if type(item) is tuple and item else item for items in value.values() for item in items)
    return all(node in value for node in nodes)


def _is_absolute_path(value):
    """Return whether a text is a path in the form of the operating system: code may rely on that form."""
    return value[:1] == "/" and os.path.normpath(value) == value if type(value) is str else None


#: Properties that all values of a position may share, by name.
_PROPERTIES = {
    "an absolute path": _is_absolute_path,
    "sorted": _of_items(_is_ordered),
    "sorted downwards": _of_items(lambda items: _is_ordered(items[::-1])),
    "strictly sorted": _of_items(lambda items: all(a < b for a, b in zip(items, items[1:]))),  # noqa: RUF007
    "distinct": _of_items(_is_distinct),
    "sorted by the first field": _is_ordered_by(0),
    "sorted by the last field": _is_ordered_by(-1),
    "rows of one length": _of_rows(lambda rows: len({len(row) for row in rows}) == 1),
    "square": _of_rows(lambda rows: all(len(row) == len(rows) for row in rows)),
    "indexes": _of_items(_are_own_indexes),
    "rows of indexes": _of_items(_are_neighbours),
    "a permutation": _of_items(_is_permutation),
    "neighbours are keys": _is_graph,
    "not zero": lambda value: value != 0 if type(value) in NUMBERS else None,
}


#: Beyond this a number is one of a kind, like infinity: integers know no end, and floats cannot hold them.
_LARGEST = 1e300
#: So many decimal places of floats are looked for.
_MAX_DECIMALS = 6
#: Sequences up to so long may have one length for a reason: points, pairs.
_FIXED = 4
#: So many texts of one sign, not all of them letters, are signs and no words; what breaks that.
_SIGNS, ONE_SIGN = 10, "one sign"

#: What is known of one position. `low`, `high`: of numbers, or None; `decimals`: of floats, or None;
#: `length`: the only one that there is, or None; `fields`: types of the items of lists that are records, or
#: None; `foreign`: signs of texts beyond ASCII; `closed`: the only values, where one seems to choose; `keys`:
#: of dicts, or None; `names`: properties; `pool`: values; `may_be_empty`: the code itself expects that.
Summary = namedtuple(  # noqa: PYI024 - typing is slow to import
    "Summary", "types low high decimals length fields foreign closed keys names pool may_be_empty"
)


def _summary_of(values, many, *, may_be_empty=False):
    """Sum the values of one position up.

    Args:
        many: says whether they come from more than one call.
        may_be_empty: says whether the code itself expects that.
    """
    numbers = [v for v in values if type(v) in NUMBERS and is_bounded(v)]
    return Summary(
        types=frozenset(map(type, values)),
        low=min(numbers, default=None),
        high=max(numbers, default=None),
        decimals=_decimals([v for v in numbers if type(v) is float]),
        length=_length(values, many),
        fields=_fields(values),
        foreign=frozenset().union(*map(_foreign, values)),
        closed=_closed(values, many),
        keys=_keys([v for v in values if type(v) is dict]),
        names=_common_properties(values),
        pool=values[:MAX_ITEMS],
        may_be_empty=may_be_empty,
    )


def is_bounded(number):
    """Return whether a number can be calculated with as a float: not infinite, NaN or a huge integer."""
    return -_LARGEST < number < _LARGEST


def _decimals(floats):
    for places in range(_MAX_DECIMALS + 1):
        if floats and all(round(number, places) == number for number in floats):
            return places
    return None


def _length(values, many):
    """Return the length that all have, where that is no chance: of records, and of short sequences."""
    lengths = {len(v) for v in values if type(v) in SIZED}
    if len(lengths) != 1:
        return None
    is_short = many and max(lengths) <= _FIXED and all(type(v) in (list, tuple) for v in values)
    return lengths.pop() if is_short or any(map(is_fields, values)) or _are_signs(values) else None


def _fields(values):
    """Return the types of the items of lists like [1, 2, 0.5]: alike in all, and more than one."""
    kinds = {tuple(map(type, v)) if type(v) is list else () for v in values}
    (first, *others) = kinds or {()}
    return first if not others and len(values) > 1 and len(set(first)) > 1 else None


def _are_signs(values):
    """Return whether texts are signs that are looked for: quotes, separators."""
    are_single = len(values) >= _SIGNS and all(type(v) is str and len(v) == 1 for v in values)
    return are_single and not all(map(str.isalnum, values))


def _foreign(value):
    """Return the signs of a text or of bytes beyond ASCII: code may well leave those that it has not met."""
    return (
        {sign for sign in value if ord(sign) > 127} if type(value) is str and not value.isascii() else set()
    )


def _closed(values, many):
    """Return the only values of a position where one seems to choose; None where one need not."""
    kinds = set(map(type, values))
    if kinds <= {bool, type(None)} or (kinds <= {str, type(None)} and many and len(set(values)) == 1):
        return frozenset(values)
    return None


def _keys(dicts):
    keys = {frozenset(each) for each in dicts}
    return next(iter(keys)) if len(keys) == 1 else None


def broken_by(summary, value):
    """Return the name of what a value breaks at its position."""
    if type(value) not in summary.types:
        return "type"
    name = _broken_number(summary, value) if type(value) in NUMBERS else _broken_container(summary, value)
    return name or _missing_property(summary.names, value)


def _broken_container(summary, value):
    kind = type(value)
    if kind in SIZED and not value and summary.may_be_empty:
        return ""
    if kind in SIZED and not value and all(len(other) for other in summary.pool if type(other) in SIZED):
        return "non-empty"
    if kind in SIZED and summary.length not in (None, len(value)):
        return "length" if kind is not str else ONE_SIGN
    if not summary.foreign.issuperset(_foreign(value)):
        return "signs beyond ASCII"
    if kind is list:
        return "" if summary.fields in (None, tuple(map(type, value))) else "types of fields"
    has_other_keys = kind is dict and summary.keys not in (None, frozenset(value))
    return "key set" if has_other_keys else ""


def _broken_number(summary, value):
    if not is_bounded(value):
        return "" if value in summary.pool else "finite"
    if summary.low is None or (value < 0 <= summary.low) or (value > 0 >= summary.high):
        return "sign"
    return ""


#: What holds other values, and what does not.
_NESTING = (list, tuple, set, frozenset, dict)
_ATOMS = (str, bytes, bool, int, float, complex, type(None))


class CallRelations:
    """Relations that all calls have in common: `places` by position, `pairs` between arguments."""

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
        pairs = pairs_of(found) if pairs is None else pairs & pairs_of(found)
    places = {
        path: _summary_of(values, len(calls) > 1, may_be_empty=path[-1] in optional)
        for path, values in gathered.items()
    }
    for path in called & places.keys():
        if places[path].types == {type(None)}:  # tests give None where the code calls what it finds
            pool = [None, *ANSWERS]
            places[path] = places[path]._replace(types=frozenset(map(type, pool)), closed=None, pool=pool)
    return CallRelations(places, pairs or frozenset())


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
    """Yield equal lengths, and numbers that are positions in what has a length, or ends of its parts."""
    for one, left in {**lengths, **numbers}.items():
        for other, right in lengths.items():
            if left == right and one != other:
                yield "%s = %s" % (word(one), word(other))
            if one in numbers and 0 <= left <= right:
                yield "%s up to %s" % (word(one), word(other))
                if left < right:
                    yield "%s inside %s" % (word(one), word(other))


def _memberships(tops):
    items = [(path, value) for path, value in tops.items() if type(value) in SIZED]
    for one, left in tops.items():
        for other, right in items:
            if one != other and _is_inside(left, right):
                yield "%s in %s" % (word(one), word(other))


def _containments(tops):
    """Yield pairs of arguments: all innermost parts of one occur in the other (edges, nodes)."""
    parts = {path: _innermost(value, MAX_DEPTH) for path, value in tops.items() if type(value) in _NESTING}
    for one, left in parts.items():
        for other, right in parts.items():
            if one != other and left <= right:
                yield "what is in %s is in %s" % (word(one), word(other))


def _indexes(found, sizes):
    """Yield positions with whole numbers below a number or length that reach half of it (nodes of graphs).

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
