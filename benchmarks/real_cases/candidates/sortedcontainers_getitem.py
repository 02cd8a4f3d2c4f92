"""Candidates of `sortedcontainers_getitem`: an item or a slice of a list of sorted lists."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

from edits import Sources, function_source, replace_function, substitute

PATH = "sortedcontainers/sortedlist.py"
TARGET = "SortedList.__getitem__"


def _change(*pairs: tuple[str, str]) -> Callable[[Sources], dict[str, str]]:
    """Substitute in the target alone."""

    def texts(sources: Sources) -> dict[str, str]:
        function = textwrap.indent(function_source(sources.base(PATH), TARGET), "    ")
        for old, new in pairs:
            function = substitute(function, old, new)
        return {PATH: replace_function(sources.base(PATH), TARGET, function)}

    return texts


def _upstream_again(sources: Sources) -> dict[str, str]:
    function = function_source(sources.upstream(1)[PATH], TARGET)
    return {PATH: replace_function(sources.base(PATH), TARGET, function)}


STEPS = """\
            indices = range(start, stop, step)
            return list(self._getitem(index) for index in indices)
"""

STRIDE = """\
            indices = range(start, stop, step)
            if not indices:
                return []
            low, high = sorted((indices[0], indices[-1]))
            values = self._getitem(slice(low, high + 1))
            return values[::step]
"""

STRIDE_FROM_THE_START = """\
            if start > stop:
                start, stop = stop + 1, start + 1
            if start >= stop:
                return []
            return self._getitem(slice(start, stop))[::step]
"""

START = "                start_pos, start_idx = self._pos(start)\n"

SMALL = (
    START
    + """\
                small = _lists[start_pos]
                if start_idx + stop - start <= len(small):
                    return small[start_idx:start_idx + stop - start]
"""
)

SHARED = (
    START
    + """\
                small = _lists[start_pos]
                if start_idx == 0 and stop - start == len(small):
                    return small
                if start_idx + stop - start <= len(small):
                    return small[start_idx:start_idx + stop - start]
"""
)

SHORTENED = (
    START
    + """\
                if stop - start <= len(_lists[start_pos]):
                    return _lists[start_pos][start_idx:start_idx + stop - start]
"""
)

LAST = """\
            len_last = len(_lists[-1])

            if -len_last < index < 0:
                return _lists[-1][len_last + index]

            pos, idx = self._pos(index)
"""

WRAPPED = "            pos, idx = self._pos(index % self._len)\n"

WHOLE = "            start, stop, step = index.indices(self._len)\n"

COPIED = "            return reduce(iadd, _lists, [])[index]\n" + WHOLE

CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "upstream": lambda sources: sources.upstream(0),
    "upstream_refactored": _upstream_again,
    "stride": _change((STEPS, STRIDE)),
    "small_and_stride": _change((START, SMALL), (STEPS, STRIDE)),
    "stride_from_the_start": _change((STEPS, STRIDE_FROM_THE_START)),
    "shared": _change((START, SHARED)),
    "shortened": _change((START, SHORTENED)),
    "wrapped": _change((LAST, WRAPPED)),
    "copied": _change((WHOLE, COPIED)),
}
