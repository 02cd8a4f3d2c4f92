"""What code is when its text stands some lines further down."""

import dis
import operator
import re
import sys
import types

from . import code_comparison

#: What makes bytes mean something else than their lines say: a cookie, a mark, other ends of lines, what is
#: blank to `bytes` only, and a line of a backslash alone: Python 3.9 does not ask how the next is indented.
ODD = re.compile(rb"[\r\f\v\0]|\A\xef\xbb\xbf|\A(?:[^\n]*\n)?[^\n]*coding[:=]|(?m:^)[ \t]*\\\n")

#: Whether the compiler stores in each class the line on which it stands; and whether it may write such a
#: number into an instruction, where it is no constant.
_TELLS_LINES, _SHORT = sys.version_info >= (3, 13), 256 if "LOAD_SMALL_INT" in dis.opmap else 0


class LineShiftError(Exception):
    """Only the whole module says what some code is a few lines further down."""


def moved(code, lines):
    """Return code as it is when its text stands some lines further down.

    Raises:
        InDoubtError: it cannot be told from the code alone.
    """
    return code_comparison.moved(_told(code, lines), lines)


def _told(code, lines):
    """Return code whose classes are told that they stand some lines further down."""
    if not _TELLS_LINES:
        return code
    inside = [_told(c, lines) if isinstance(c, types.CodeType) else c for c in code.co_consts]
    if "__firstlineno__" in code.co_freevars:
        raise LineShiftError
    if code_comparison.knows_line(code):
        inside[_index_of_line(code, lines)] = code.co_firstlineno + lines
    return code if all(map(operator.is_, inside, code.co_consts)) else code.replace(co_consts=tuple(inside))


def _index_of_line(code, lines):
    """Return which constant of a class's body is its line, and nothing else, both before and after a move."""
    old, new = code.co_firstlineno, code.co_firstlineno + lines
    numbers = [(index, c) for index, c in enumerate(code.co_consts) if type(c) is int and c in (old, new)]
    # Of the two only the old is a constant, and only once: the compiler shares those that are equal.
    if len(numbers) != 1 or numbers[0][1] != old or new < _SHORT:
        raise LineShiftError
    index = numbers[0][0]
    uses = zip(code.co_code[::2], code.co_code[1::2])
    # An index that takes two bytes is never found; one that ends in the same byte counts as a use.
    if sum(arg == index and opcode in dis.hasconst for opcode, arg in uses) != 1:
        raise LineShiftError
    return index
