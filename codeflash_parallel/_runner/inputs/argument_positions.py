"""The parts of a call by their positions: an argument, the items of a list, a field of a tuple. Pure."""

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
    """Say whether a tuple looks like a record: each of its items has a place of its own."""
    return type(value) is tuple and len(value) <= _MAX_FIELDS


def is_record(value):
    """Say whether a dict looks like a record: a few texts as its keys."""
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
    except AttributeError:  # a slot that nobody has filled
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
