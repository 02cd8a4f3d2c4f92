"""Candidates of `jsonschema_uniq`: are all elements of an array unique, by what JSON Schema calls equal."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

from edits import Sources, add_import, replace_body

PATH = "jsonschema/_utils.py"
NAME = "uniq"

SAME_SCALARS = """\
    kinds = {type(element) for element in container}
    if kinds <= {str} or kinds <= {int}:
        return len(set(container)) == len(container)
"""

SORTED = """\
    try:
        sort = sorted(unbool(i) for i in container)
        sliced = itertools.islice(sort, 1, None)

        for i, j in zip(sort, sliced):
            if equal(i, j):
                return False
"""

BRUTE_FORCE = """\
        seen = []
        for e in container:
            e = unbool(e)

            for i in seen:
                if equal(i, e):
                    return False

            seen.append(e)
"""

UNSORTABLE = """\

    except (NotImplementedError, TypeError):
"""

BY_KEYS = """\
        buckets = {}
        for element in container:
            element = unbool(element)
            if isinstance(element, Mapping):
                bucket = frozenset(element)
            elif isinstance(element, Sequence) and not isinstance(element, str):
                bucket = len(element)
            else:
                bucket = None
            seen = buckets.setdefault(bucket, [])
            if any(equal(each, element) for each in seen):
                return False
            seen.append(element)
"""

WITH_ANY = """\
    try:
        sort = sorted(map(unbool, container))
        if any(equal(i, j) for i, j in zip(sort, itertools.islice(sort, 1, None))):
            return False
    except (NotImplementedError, TypeError):
        seen = []
        for e in map(unbool, container):
            if any(equal(i, e) for i in seen):
                return False
            seen.append(e)
    return True
"""

JSON_TEXTS = """\
    try:
        texts = [json.dumps(element, sort_keys=True) for element in container]
        return len(set(texts)) == len(texts)
    except (TypeError, ValueError):
        pass
"""

SORTED_BY_REPR = """\
    sort = sorted(map(unbool, container), key=repr)
    return not any(equal(i, j) for i, j in zip(sort, itertools.islice(sort, 1, None)))
"""

FROZEN = """\
    def frozen(element):
        if isinstance(element, Mapping):
            return "mapping", frozenset((key, frozen(value)) for key, value in element.items())
        if isinstance(element, Sequence) and not isinstance(element, str):
            return "sequence", tuple(frozen(each) for each in element)
        return element

    keys = [frozen(unbool(element)) for element in container]
    return len(set(keys)) == len(keys)
"""

WHOLE = SORTED + UNSORTABLE + BRUTE_FORCE + "    return True\n"


def _body(new: str) -> Callable[[Sources], dict[str, str]]:
    return lambda sources: {PATH: replace_body(sources.base(PATH), NAME, new)}


def _json_texts(sources: Sources) -> dict[str, str]:
    return {PATH: replace_body(add_import(sources.base(PATH), "import json"), NAME, JSON_TEXTS + WHOLE)}


CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "upstream": lambda sources: sources.upstream(0),
    "same_scalars": _body(SAME_SCALARS + WHOLE),
    "by_keys": _body(SORTED + UNSORTABLE + BY_KEYS + "    return True\n"),
    "scalars_and_keys": _body(SAME_SCALARS + SORTED + UNSORTABLE + BY_KEYS + "    return True\n"),
    "json_texts": _json_texts,
    "sorted_by_repr": _body(SORTED_BY_REPR),
    "frozen_without_bools": _body(FROZEN),
    "brute_force": _body(textwrap.dedent(BRUTE_FORCE) + "return True\n"),
    "with_any": _body(WITH_ANY),
}
