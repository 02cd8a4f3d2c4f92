"""What all values of a position have in common: types, range, lengths, alphabet, keys, properties. Pure."""

import math
import string
from collections import namedtuple

from . import properties
from .positions import MAX_ITEMS, NUMBERS, SIZED

#: So many decimal places of floats are looked for.
_MAX_DECIMALS = 6
#: Fewer different integers say nothing about their remainders.
_LEAST_DIFFERENT = 3
#: Where lengths vary, longer ones than observed are allowed, up to so many times: cuts hide behind them.
GROWTH = 100
#: Where one of these signs was seen, all may stand: prefilters hide behind case and alphabet.
_SIGNS = (frozenset(string.ascii_letters), frozenset(string.digits), frozenset(" \n"))

#: What is known of one position. `low`, `high`: of numbers; `step`: (remainder, modulus) of integers;
#: `decimals`: of floats, or None; `lengths`: usual ones as (low, high), equal where all have one;
#: `alphabet`: of texts; `form`: the runs of signs that all texts have, or None; `closed`: the only allowed
#: values, or None; `keys`: of dicts, or None; `names`: properties; `pool`: values that were observed.
Summary = namedtuple(  # noqa: PYI024 - typing is slow to import
    "Summary", "types low high step decimals lengths alphabet form closed keys names pool"
)


def summary_of(values, constants, many):
    """Sum the values of one position up.

    Args:
        constants: texts that the code of the target knows.
        many: says whether they come from more than one call.
    """
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
        alphabet=_alphabet(texts),
        form=_form(texts),
        closed=_closed(values, constants, many),
        keys=_keys([v for v in values if type(v) is dict]),
        names=properties.common(values),
        pool=values[:MAX_ITEMS],
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
    """Return usual lengths: up to twice the largest where they vary, else the one that was seen."""
    lengths = {len(v) for v in values if type(v) in SIZED}
    if not lengths:
        return None
    low, high = min(lengths), max(lengths)
    fixed = low == high and (many or any(type(v) is tuple for v in values))
    return (low, high) if fixed else (min(low, 1), 2 * high)


def _alphabet(texts):
    """Return the signs that may stand in texts: those that were seen, and ASCII's of the same kinds."""
    seen = frozenset().union(*texts) if texts else frozenset()
    is_bytes = any(type(sign) is int for sign in seen)
    kinds = [frozenset(map(ord, kind)) if is_bytes else kind for kind in _SIGNS]
    return seen.union(*(kind for kind in kinds if not kind.isdisjoint(seen)))


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


def broken_by(summary, value):
    """Return the name of what a value breaks at its position."""
    if type(value) not in summary.types:
        return "type"
    if summary.closed is not None and value not in summary.closed:
        return "one of the observed values"
    name = _broken_number(summary, value) if type(value) in NUMBERS else _broken_container(summary, value)
    return name or properties.missing(summary.names, value)


def _broken_container(summary, value):
    kind = type(value)
    if kind in SIZED and not _is_length(summary, len(value)):
        return "length" if value else "non-empty"
    if kind in (str, bytes) and not summary.alphabet.issuperset(value):
        return "alphabet"
    if kind is str and summary.form is not None and properties.kinds(value) != summary.form:
        return "form of the text"
    if kind is dict and summary.keys is not None and frozenset(value) != summary.keys:
        return "key set"
    return ""


def _is_length(summary, length):
    low, high = summary.lengths
    return low <= length <= (high if low == high else GROWTH * high)


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
