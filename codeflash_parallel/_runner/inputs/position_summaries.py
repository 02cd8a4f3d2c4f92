"""What all values of a position have in common: types, signs, fixed lengths, keys, properties. Pure."""

from collections import namedtuple

from . import value_properties
from .argument_positions import MAX_ITEMS, NUMBERS, SIZED, is_fields
from .parameter_expectations import ANSWERS

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


def summary_of(values, many, *, may_be_empty=False):
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
        names=value_properties.common(values),
        pool=values[:MAX_ITEMS],
        may_be_empty=may_be_empty,
    )


def is_bounded(number):
    """Say whether a number can be calculated with as a float: not infinite, NaN or a huge integer."""
    return -_LARGEST < number < _LARGEST


def with_answers(summary):
    """Return what is known of a position where tests give None, and code calls what it finds there."""
    pool = [None, *ANSWERS]
    return summary._replace(types=frozenset(map(type, pool)), closed=None, pool=pool)


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
    """Say whether texts are signs that are looked for: quotes, separators."""
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
    return name or value_properties.missing(summary.names, value)


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
