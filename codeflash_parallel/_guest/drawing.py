"""New values for a position, drawn by what was observed there."""

import copy
import math

from .positions import ITEMS, KEYS, VALUES, children, is_record, rebuilt
from .summaries import GROWTH

#: Containers get no longer than this, and texts.
_MOST_ITEMS, MOST_SIGNS = 2_000, 100_000
#: Of the lengths that are drawn, so many are far beyond the observed ones.
_LARGE = 0.1


class Drawer:
    """Draws values.

    Args:
        known: the relations of all observed calls.
        random: source of everything drawn.

    Attributes:
        wild: says whether what is drawn goes beyond observed ranges and lengths.
    """

    def __init__(self, known, random):
        self._known, self._random, self.wild = known, random, False

    def length(self, path, current):
        """Return a length for a position, of the kind of those that were observed there."""
        summary = self._known.places.get(path)
        low, high = summary.lengths if summary is not None and summary.lengths else (current, current)
        low = 0 if self.wild else low
        if low < high and self._random.random() < _LARGE:
            return min(self.grown(high // 2, 2), _MOST_ITEMS)
        # Small ones more often than large ones: the smallest example is shown.
        power = self._random.choice((1, 2))
        length = low + int((high - low + 1) * self._random.random() ** power)
        return min(length, _MOST_ITEMS)

    def grown(self, length, least):
        """Return a length up to a hundred times another one, `least` times at least; any order as often."""
        low, high = math.log(max(1, least * length)), math.log(GROWTH * max(1, length))
        return int(math.exp(self._random.uniform(low, high)))

    def drawn(self, path, like=None):
        """Return a new value for a position, of the kind of one that was observed there."""
        summary = self._known.places.get(path)
        if summary is None:
            return copy.deepcopy(like)
        model = self._random.choice(summary.pool)
        kind = type(model)
        if summary.closed is not None or kind not in _DRAWN or self._random.random() < 0.2:
            return copy.deepcopy(model)
        return _DRAWN[kind](self, summary, path, model)

    def _integer(self, summary, _path, model):
        if summary.low is None:
            return model
        low, high = int(summary.low), int(summary.high)
        if self.wild:
            return self._random.choice((0, -1, -high, low - 1, high + 1, 2 * high, 10 * high + 7))
        _, modulus = summary.step
        if modulus <= 1:
            return self._random.randint(low, high)
        return low + modulus * self._random.randint(0, (high - low) // modulus)

    def _float(self, summary, _path, model):
        if summary.low is None:
            return model
        if self.wild:
            return self._random.choice((0.0, -1.0, -summary.high, 10 * summary.high + 0.7, summary.low / 3))
        number = self._random.uniform(summary.low, summary.high)
        if summary.decimals is not None:
            number = round(number, summary.decimals)
        return number

    def _text(self, summary, path, model):
        if not summary.alphabet:
            return model
        if summary.form is not None and not summary.form.isalnum():
            return self._reformed(model)
        signs = sorted(summary.alphabet)
        length = self.length(path, len(model))
        if type(model) is bytes:
            return bytes(self._random.choice(signs) for _ in range(length))
        # The signs of one text mostly: words of a language, digits of a number.
        pool = list(model) if model and self._random.random() < 0.5 else signs
        return "".join(self._random.choice(pool) for _ in range(length))

    def _reformed(self, text):
        """Return a text of the same form: digits for digits, letters stay."""
        return "".join(self._random.choice("0123456789") if c.isdigit() else c for c in text)

    def _sequence(self, _summary, path, model):
        if type(model) is tuple:
            steps = children(model)
            return tuple(self.drawn((*path, step), item) for step, item in steps)
        count = self.length(path, len(model))
        return rebuilt(type(model), [self.drawn((*path, ITEMS)) for _ in range(count if model else 0)])

    def _mapping(self, summary, path, model):
        if is_record(model):
            return {key: self.drawn((*path, "." + key), item) for key, item in model.items()}
        keys = list(model) if summary.keys is not None else self._keys(path, len(model))
        return {key: self.drawn((*path, VALUES)) for key in keys}

    def _keys(self, path, count):
        return [self.drawn((*path, KEYS)) for _ in range(self.length(path, count))]


_DRAWN = {
    int: Drawer._integer,
    float: Drawer._float,
    str: Drawer._text,
    bytes: Drawer._text,
    list: Drawer._sequence,
    tuple: Drawer._sequence,
    set: Drawer._sequence,
    frozenset: Drawer._sequence,
    dict: Drawer._mapping,
}
