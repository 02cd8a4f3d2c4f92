"""Derived inputs made to keep what is easily kept: orders inside arguments, lengths that agree. Pure."""

from .positions import SIZED, children, rebuilt, word

#: How deep orders are restored.
_DEPTH = 3


def mend(known, args, kwargs):
    """Restore what is easily restored.

    Args:
        known: the relations of all observed calls.
        args, kwargs: a list and a dict; they are changed.
    """
    for holder, places in ((args, range(len(args))), (kwargs, list(kwargs))):
        for place in places:
            holder[place] = _reordered(known, holder[place], (place,), _DEPTH)
    _match_lengths(known, args)


def _reordered(known, value, path, depth):
    if type(value) not in (list, tuple) or not depth:
        return value
    steps = [step for step, _ in children(value)]
    parts = [_reordered(known, item, (*path, step), depth - 1) for item, step in zip(value, steps)]
    parts += list(value)[len(steps) :]
    summary = known.places.get(path)
    return rebuilt(type(value), _ordered(parts, summary.names) if summary is not None else parts)


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
    except (TypeError, LookupError):  # parts of several types, or without a field
        return parts
    return parts


def _match_lengths(known, args):
    """Make two arguments equally long where they always were, and a number the length that it was."""
    for one, value in enumerate(args):
        for other in range(one + 1, len(args)):
            _cut_to_one_length(known.pairs, args, one, other, value)
            _set_to_length(known.pairs, args, one, other, value)


def _cut_to_one_length(pairs, args, one, other, value):
    second, size, length = args[other], word((one, "length")), word((other, "length"))
    if type(second) in (list, str) and _are_equal(pairs, size, length):
        least = min(len(args[one]), len(second))
        args[one], args[other] = value[:least] if type(value) in (list, str) else value, second[:least]


def _set_to_length(pairs, args, one, other, value):
    is_length = _are_equal(pairs, word((other,)), word((one, "length")))
    if is_length and type(args[other]) is int and type(value) in SIZED:
        args[other] = len(value)


def _are_equal(pairs, one, other):
    return {"%s <= %s" % (one, other), "%s >= %s" % (one, other)} <= pairs
