"""Candidates of `more_itertools_partial_product`: tuples in which one item changes at a time."""

from __future__ import annotations

from collections.abc import Callable

from edits import Sources, replace_body

PATH = "more_itertools/more.py"
TARGET = "partial_product"


def _body(new: str) -> Callable[[Sources], dict[str, str]]:
    return lambda sources: {PATH: replace_body(sources.base(PATH), TARGET, new)}


BEGIN = """
iterators = list(map(iter, iterables))

try:
    items = [next(it) for it in iterators]
except StopIteration:
    return
"""

HEAD_AND_TAIL = f"""{BEGIN}
yield tuple(items)

for i, it in enumerate(iterators):
    head = tuple(items[:i])
    tail = tuple(items[i + 1:])
    item = items[i]
    for item in it:
        yield (*head, item, *tail)
    items[i] = item
"""

POOLS = """
pools = list(map(tuple, iterables))
if not all(pools):
    return
items = [pool[0] for pool in pools]
yield tuple(items)

for i, pool in enumerate(pools):
    for items[i] in pool[1:]:
        yield tuple(items)
"""

RETURNS = f"""{BEGIN}
yield tuple(items)

for i, it in enumerate(iterators):
    first = items[i]
    for items[i] in it:
        yield tuple(items)
    items[i] = first
"""

ONE_LIST = f"""{BEGIN}
yield items

for i, it in enumerate(iterators):
    for items[i] in it:
        yield items
"""

CHANGES_ONLY = f"""{BEGIN}
yield tuple(items)

for i, it in enumerate(iterators):
    for item in it:
        if item != items[i]:
            items[i] = item
            yield tuple(items)
"""

LISTS_ANEW = f"""{BEGIN}
yield tuple(items)

previous = []
for number, it in enumerate(iterators):
    current = items[number]
    for current in it:
        values = list(previous)
        values.append(current)
        for other in items[number + 1:]:
            values.append(other)
        yield tuple(values)
    previous.append(current)
"""

RENAMED = """
iterators = [iter(each) for each in iterables]

try:
    ahead = [next(each) for each in iterators]
except StopIteration:
    return
yield tuple(ahead)

behind = []
for each in iterators:
    item = ahead.pop(0)
    for item in each:
        yield (*behind, item, *ahead)
    behind.append(item)
"""

CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "upstream": lambda sources: sources.upstream(0),
    "head_and_tail": _body(HEAD_AND_TAIL),
    "pools": _body(POOLS),
    "returns": _body(RETURNS),
    "one_list": _body(ONE_LIST),
    "changes_only": _body(CHANGES_ONLY),
    "lists_anew": _body(LISTS_ANEW),
    "renamed": _body(RENAMED),
}
