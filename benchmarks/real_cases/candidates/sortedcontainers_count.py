"""Candidates of `sortedcontainers_count`: how often a value occurs."""

from __future__ import annotations

from collections.abc import Callable

from edits import Sources, replace_body

PATH = "src/sortedcontainers/sortedlist.py"
FROM_THE_LEFT = """\
        maxes = self._maxes
        first = bisect_left(maxes, value)
        last = len(maxes)
        if first == last:
            return 0
        lists = self._lists
        part = lists[first]
        left = bisect_left(part, value)
        if value < part[left]:
            return 0
        if value < maxes[first]:
            return bisect_right(part, value, left) - left
        second = bisect_right(maxes, value, first)
        if second == last:
            return self._len - self._loc(first, left)
        right = bisect_right(lists[second], value)
        return self._loc(second, right) - self._loc(first, left)
"""

OTHER_NAMES = """\
        maxes = self._maxes

        if not maxes:
            return 0

        first = bisect_left(maxes, value)

        if first == len(maxes):
            return 0

        lists = self._lists
        left = bisect_left(lists[first], value)
        second = bisect_right(maxes, value)

        if second == len(maxes):
            return self._len - self._loc(first, left)

        right = bisect_right(lists[second], value)

        if first != second:
            end = self._loc(second, right)
            return end - self._loc(first, left)

        return right - left
"""

WHOLE_LISTS = """\
        _maxes = self._maxes

        if not _maxes:
            return 0

        pos_left = bisect_left(_maxes, value)

        if pos_left == len(_maxes):
            return 0

        _lists = self._lists
        idx_left = bisect_left(list(_lists[pos_left]), value)
        pos_right = bisect_right(list(_maxes), value)

        if pos_right == len(_maxes):
            return self._len - self._loc(pos_left, idx_left)

        idx_right = bisect_right(list(_lists[pos_right]), value)

        if pos_left == pos_right:
            return idx_right - idx_left

        right = self._loc(pos_right, idx_right)
        left = self._loc(pos_left, idx_left)
        return right - left
"""


def _body(new: str) -> Callable[[Sources], dict[str, str]]:
    return lambda sources: {PATH: replace_body(sources.base(PATH), "SortedList.count", new)}


CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "from_the_left": _body(FROM_THE_LEFT),
    "other_names": _body(OTHER_NAMES),
    "whole_lists": _body(WHOLE_LISTS),
}
