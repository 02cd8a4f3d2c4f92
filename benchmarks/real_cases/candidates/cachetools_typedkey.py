"""Candidates of `cachetools_typedkey`: a key of arguments and their types."""

from __future__ import annotations

from collections.abc import Callable

from edits import Sources, replace_body

PATH = "src/cachetools/keys.py"
TARGET = "typedkey"


def _body(new: str) -> Callable[[Sources], dict[str, str]]:
    return lambda sources: {PATH: replace_body(sources.base(PATH), TARGET, new)}


AT_ONCE = """
types = tuple(map(type, args))
if not kwargs:
    return _HashedTuple(args + types)
items = tuple(sorted(kwargs.items()))
return _HashedTuple((*args, *_kwmark, *items, *types, *[type(value) for _, value in items]))
"""

SORTED_ONCE = """
items = tuple(sorted(kwargs.items()))
key = _HashedTuple(args + _kwmark + items if items else args)
key += tuple([type(v) for v in args])
key += tuple([type(v) for _, v in items])
return key
"""

UNSORTED = """
if not kwargs:
    return _HashedTuple(args + tuple(map(type, args)))
types = tuple(map(type, (*args, *kwargs.values())))
return _HashedTuple(args + _kwmark + tuple(kwargs.items()) + types)
"""

PLAIN_TUPLE = """
items = tuple(sorted(kwargs.items()))
types = tuple(map(type, args))
if not items:
    return args + types
return args + _kwmark + items + types + tuple([type(value) for _, value in items])
"""

TYPES_OF_POSITIONAL = """
types = tuple(map(type, args))
if not kwargs:
    return _HashedTuple(args + types)
return _HashedTuple(args + _kwmark + tuple(sorted(kwargs.items())) + types)
"""

UNTYPED = """
return hashkey(*args, **kwargs)
"""

ONE_BY_ONE = """
key = hashkey(*args, **kwargs)
for value in args:
    key = key + hashkey(type(value))
for name in sorted(kwargs):
    key = key + hashkey(type(dict(sorted(kwargs.items()))[name]))
return key
"""

RENAMED = """
found = hashkey(*args, **kwargs)
found += tuple(type(value) for value in args)
found += tuple(type(value) for _, value in sorted(kwargs.items()))
return found
"""

CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "upstream": lambda sources: sources.upstream(0),
    "at_once": _body(AT_ONCE),
    "sorted_once": _body(SORTED_ONCE),
    "unsorted": _body(UNSORTED),
    "plain_tuple": _body(PLAIN_TUPLE),
    "types_of_positional": _body(TYPES_OF_POSITIONAL),
    "untyped": _body(UNTYPED),
    "one_by_one": _body(ONE_BY_ONE),
    "renamed": _body(RENAMED),
}
