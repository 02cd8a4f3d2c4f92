"""Inputs made of arguments that were seen, but not together: the extremes of each position first. Pure."""

import copy
import itertools

from .deriving import is_plain

#: Of the values of one position, so many of the smallest and of the largest are taken, and of others.
_SMALLEST, _LARGEST, _OTHERS = 3, 2, 1
#: Longer texts of a value are not told apart.
_MOST_TEXT = 200


def crosses(observed, random):
    """Return pairs (number of a call, values by position) in an order that is drawn.

    Two positions at a time are given values that other calls had there; the rest is as in that call.

    Args:
        observed: (args, kwargs) of the calls.
        random: source of everything drawn.
    """
    by_shape = {}
    for number, (args, kwargs) in enumerate(observed):
        values = {**dict(enumerate(args)), **kwargs}
        by_shape.setdefault((len(args), *sorted(kwargs)), []).append((number, values))
    found = [cross for calls in by_shape.values() for cross in _of_shape(calls, random)]
    random.shuffle(found)
    return found


def _of_shape(calls, random):
    """Yield the crosses of calls that have the same positions."""
    plain = [top for top in calls[0][1] if all(is_plain(values[top]) for _, values in calls)]
    chosen = {top: _chosen([values[top] for _, values in calls], random) for top in plain}
    varied = [top for top in plain if len(chosen[top]) > 1]
    for one, other in itertools.combinations(varied, 2):
        for left, right in itertools.product(chosen[one], chosen[other]):
            number, _ = random.choice(calls)
            yield number, {one: copy.deepcopy(left), other: copy.deepcopy(right)}


def _chosen(values, random):
    """Return the extremes of the values that a position had, and some between them."""
    distinct = {(type(value).__name__, repr(value)[:_MOST_TEXT]): value for value in values}
    ordered = sorted(distinct.values(), key=_size)
    if len(ordered) <= _SMALLEST + _LARGEST + _OTHERS:
        return ordered
    between = ordered[_SMALLEST:-_LARGEST]
    return ordered[:_SMALLEST] + ordered[-_LARGEST:] + random.sample(between, _OTHERS)


def _size(value):
    if isinstance(value, (int, float)):
        return value
    return len(value) if hasattr(value, "__len__") else 0
