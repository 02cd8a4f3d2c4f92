"""Candidates of `nltk_ngrams`: all runs of n successive items, one after the other."""

from __future__ import annotations

from collections.abc import Callable

from edits import Sources, add_import, function_source, replace_function, substitute

PATH = "nltk/util.py"
TARGET = "ngrams"
REST = """
    history = []
    while n > 1:
        # PEP 479, prevent RuntimeError from being raised when StopIteration bubbles out of generator
        try:
            next_item = next(sequence)
        except StopIteration:
            # no more data, terminate the generator
            return
        history.append(next_item)
        n -= 1
    for item in sequence:
        history.append(item)
        yield tuple(history)
        del history[0]
"""


def _rest(new: str) -> Callable[[Sources], dict[str, str]]:
    """Replace what follows the padding."""

    def change(sources: Sources) -> dict[str, str]:
        text = add_import(sources.base(PATH), "from itertools import tee")
        return {PATH: substitute(add_import(text, "from collections import deque"), REST, new)}

    return change


def _upstream(sources: Sources) -> dict[str, str]:
    """Only the target: the commit mends another function as well."""
    new = function_source(sources.upstream(0)[PATH], TARGET)
    return {PATH: add_import(replace_function(sources.base(PATH), TARGET, new), "from itertools import tee")}


TEE_ZIP = """
    if n < 2:
        yield from zip(sequence)
        return
    copies = tee(sequence, n)
    for skipped, each in enumerate(copies):
        for _ in range(skipped):
            next(each, None)
    yield from zip(*copies)
"""

WINDOW = """
    window = deque(islice(sequence, max(n - 1, 0)), maxlen=max(n, 1))
    for item in sequence:
        window.append(item)
        yield tuple(window)
"""

TUPLES = """
    gram = (None, *islice(sequence, max(n - 1, 0)))
    if len(gram) < n:
        return
    for item in sequence:
        gram = (*gram[1:], item)
        yield gram
"""

MAP_TUPLE = """
    def filled():
        window = deque(islice(sequence, max(n - 1, 0)), maxlen=max(n, 1))
        for item in sequence:
            window.append(item)
            yield window

    yield from map(tuple, filled())
"""

# Takes all items before the first answer; one of an endless sequence never comes.
ALL_AT_ONCE = """
    items = list(sequence)
    n = max(n, 1)
    yield from zip(*(items[start:] for start in range(n)))
"""

# A shorter sequence gives one run of all its items.
SHORT_ONE = """
    items = list(sequence)
    yield tuple(items[:n])
    for start in range(1, len(items) - n + 1):
        yield tuple(items[start : start + n])
"""

# None marks the end, wherever it stands.
UNTIL_NONE = """
    window = deque(islice(sequence, max(n - 1, 0)), maxlen=max(n, 1))
    item = next(sequence, None)
    while item is not None:
        window.append(item)
        yield tuple(window)
        item = next(sequence, None)
"""

FRESH_LISTS = """
    history = list(islice(sequence, max(n - 1, 0)))
    for item in sequence:
        history = [each for each in history] + [item]
        yield tuple(each for each in history)
        history = [each for at, each in enumerate(history) if at]
"""

CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "upstream_tee": _upstream,
    "tee_zip": _rest(TEE_ZIP),
    "window": _rest(WINDOW),
    "tuples": _rest(TUPLES),
    "map_tuple": _rest(MAP_TUPLE),
    "all_at_once": _rest(ALL_AT_ONCE),
    "until_none": _rest(UNTIL_NONE),
    "short_one": _rest(SHORT_ONE),
    "fresh_lists": _rest(FRESH_LISTS),
    "renamed": _rest(REST.replace("history", "latest").replace("next_item", "first")),
}
