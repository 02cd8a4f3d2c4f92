"""Numbers and texts in compiled code: inputs made of them find code that treats some inputs in its own way.

Pure: code is compiled, and not run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import CodeType
from typing import Any

Constant = int | str

#: Longer texts are messages and docstrings.
_MOST_SIGNS = 60


def changed_constants(old: bytes, new: bytes) -> tuple[Constant, ...]:
    """Return the constants of code objects that only the new text has, but not those that they replace."""
    before, after = ({_print(code): code for code in _codes(text)} for text in (old, new))
    gone, come = (
        [one for name in one_side.keys() - other.keys() for one in _constants(one_side[name].co_consts)]
        for one_side, other in ((before, after), (after, before))
    )
    return tuple(sorted({*come} - {*gone}, key=repr))


def constants_of(text: bytes, qualnames: Iterable[str]) -> tuple[Constant, ...]:
    """Return the constants of some functions of a module, and of what is defined in them."""
    names = tuple(qualnames)
    inside = tuple(f"{name}.<locals>" for name in names)
    wanted = (c for c in _codes(text) if c.co_qualname in names or c.co_qualname.startswith(inside))
    return tuple(dict.fromkeys(one for code in wanted for one in _constants(code.co_consts)))


def _codes(text: bytes) -> Iterator[CodeType]:
    """Yield the code objects of a module; none of one that this Python cannot compile."""
    try:
        todo: list[Any] = [compile(text, "", "exec", dont_inherit=True, optimize=2)]
    except (SyntaxError, ValueError):
        return
    while todo:
        code = todo.pop()
        yield code
        todo += [one for one in code.co_consts if isinstance(one, CodeType)]


def _print(code: CodeType) -> tuple[object, ...]:
    """Return what a code object says, wherever it stands."""
    constants = repr([one for one in code.co_consts if not isinstance(one, CodeType)])
    return code.co_qualname, code.co_code, constants, code.co_names


def _constants(found: Iterable[object]) -> Iterator[Constant]:
    for one in found:
        if isinstance(one, tuple | frozenset):
            yield from _constants(one)
        elif (type(one) is int and abs(one) > 1) or (type(one) is str and 0 < len(one) <= _MOST_SIGNS):
            yield one
