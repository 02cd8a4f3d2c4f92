"""Named properties of a value that all observed values of a position may share. Pure.

A test returns True or False, or None where the value says nothing about it (a list of one item is neither
sorted nor unsorted).
"""

import os

#: These come about by chance where there are few items: one value that has them is long enough, or two do.
_BY_CHANCE = frozenset(("a permutation", "indexes", "rows of indexes", "square"))
_LONG = 4


def common(values):
    """Return the names of properties that every value has which says something, and at least one does."""
    return tuple(name for name, test in _TESTS.items() if _all(name, test, values))


def _all(name, test, values):
    answers = [_answer(test, value) for value in values]
    if False in answers:
        return False
    having = [value for value, answer in zip(values, answers) if answer]
    by_chance = name in _BY_CHANCE and len(having) == 1 and not _is_long(having[0])
    return bool(having) and not by_chance


def _is_long(value):
    return type(value) in (list, tuple) and len(value) >= _LONG


def missing(names, value):
    """Return the first of some properties that a value has not; empty if it has all."""
    return next((name for name in names if _answer(_TESTS[name], value) is False), "")


def _answer(test, value):
    try:
        return test(value)
    except Exception:  # items that cannot be compared or hashed
        return None


def _absolute_path(value):
    """Tell paths as the operating system gives them: code may well rely on that form."""
    return value[:1] == "/" and os.path.normpath(value) == value if type(value) is str else None


def _items(value, least=2):
    """Return the items of a sequence that has some."""
    if type(value) not in (list, tuple) or len(value) < least:
        return None
    return value


def _pairs(items):
    return zip(items, items[1:])  # noqa: RUF007 - Python 3.9 has no pairwise


def _pairwise(holds):
    def test(value):
        items = _items(value)
        return None if items is None else all(holds(a, b) for a, b in _pairs(items))

    return test


def _distinct(value):
    items = _items(value)
    return None if items is None else len({_frozen(item) for item in items}) == len(items)


def _frozen(item):
    return tuple(map(_frozen, item)) if type(item) is list else item


def _rows(value):
    """Return the items of a sequence of sequences."""
    items = _items(value, 1)
    return items if items and all(type(row) in (list, tuple) and row for row in items) else None


def _by_field(number):
    def test(value):
        rows = _rows(value)
        if rows is None or len(rows) < 2:
            return None
        fields = [row[number] for row in rows]
        return all(a <= b for a, b in _pairs(fields))

    return test


def _rectangular(value):
    rows = _rows(value)
    return None if rows is None else len({len(row) for row in rows}) == 1


def _square(value):
    rows = _rows(value)
    return None if rows is None else all(len(row) == len(rows) for row in rows)


def _indexes(value):
    items = _items(value)
    if items is None or not all(type(item) is int for item in items):
        return None
    return all(-1 <= item < len(items) for item in items)


def _row_indexes(value):
    """Tell lists of neighbours: every item of every row is the number of a row."""
    items = _items(value)
    if items is None or not all(type(row) in (list, tuple, set) for row in items):
        return None
    flat = [item for row in items for item in row]
    return all(type(item) is int and 0 <= item < len(items) for item in flat) if flat else None


def _permutation(value):
    items = _items(value)
    if items is None or not all(type(item) is int for item in items):
        return None
    return sorted(items) in (list(range(len(items))), list(range(1, len(items) + 1)))


def _neighbours(value):
    """Tell graphs: whatever the values of a dict hold is one of its keys."""
    if type(value) is not dict or not value:
        return None
    if not all(type(item) in (list, tuple, set, dict) for item in value.values()):
        return None
    return all(_first(item) in value for items in value.values() for item in items)


def _first(item):
    """Return the node of an edge with a weight."""
    return item[0] if type(item) is tuple and item else item


def _not_zero(value):
    return value != 0 if type(value) in (int, float) else None


_TESTS = {
    "an absolute path": _absolute_path,
    "sorted": _pairwise(lambda a, b: a <= b),
    "sorted downwards": _pairwise(lambda a, b: a >= b),
    "strictly sorted": _pairwise(lambda a, b: a < b),
    "distinct": _distinct,
    "sorted by the first field": _by_field(0),
    "sorted by the last field": _by_field(-1),
    "rows of one length": _rectangular,
    "square": _square,
    "indexes": _indexes,
    "rows of indexes": _row_indexes,
    "a permutation": _permutation,
    "neighbours are keys": _neighbours,
    "not zero": _not_zero,
}
