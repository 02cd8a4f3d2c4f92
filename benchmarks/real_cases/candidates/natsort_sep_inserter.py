"""Candidates of `natsort_sep_inserter`: a separator between neighbours that are numbers."""

from __future__ import annotations

from collections.abc import Callable

from edits import Sources, replace_body

PATH = "natsort/utils.py"
ONE_FLAG = """\
    types = (int, float)
    try:
        first = next(iterator)
    except StopIteration:
        return
    after_number = type(first) in types
    if after_number:
        yield sep
    yield first
    for x in iterator:
        if type(x) in types:
            if after_number:
                yield sep
            after_number = True
        else:
            after_number = False
        yield x
"""

ONE_LOOP = """\
    types = (int, float)
    previous = 0
    while True:
        try:
            current = next(iterator)
        except StopIteration:
            return
        if type(previous) in types and type(current) in types:
            yield sep
        yield current
        previous = current
"""

HELPER = """\
    def is_number(x: Any) -> bool:
        return any(type(x) is kind for kind in (int, float))

    previous = True
    while True:
        try:
            current = next(iterator)
        except StopIteration:
            return
        number = is_number(current)
        yield from [sep, current] if number and previous else [current]
        previous = number
"""


def _body(new: str) -> Callable[[Sources], dict[str, str]]:
    return lambda sources: {PATH: replace_body(sources.base(PATH), "sep_inserter", new)}


CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "one_flag": _body(ONE_FLAG),
    "one_loop": _body(ONE_LOOP),
    "helper": _body(HELPER),
}
