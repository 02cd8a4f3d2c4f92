"""Candidates of `dateutil_resolve_ymd`: which of up to three numbers is the year, the month and the day."""

from __future__ import annotations

from collections.abc import Callable

from edits import Sources, function_source, replace_function, substitute

PATH = "dateutil/parser/_parser.py"
NAME = "_ymd.resolve_ymd"
LABELS = """\
    strids = {'y': self.ystridx, 'm': self.mstridx, 'd': self.dstridx}
    strids = {key: strids[key] for key in strids if strids[key] is not None}
"""
CONDITION = """\
    if (len(self) == len(strids) > 0 or
            (len(self) == 3 and len(strids) == 2)):
        return self._resolve_from_stridxs()
"""
MONTH = "    mstridx = self.mstridx\n"
YEAR_FIRST = "self.ystridx == 0 or"

COUNTED = """\
    ystridx, mstridx, dstridx = self.ystridx, self.mstridx, self.dstridx
    known = (ystridx is not None) + (mstridx is not None) + (dstridx is not None)
    if known and (known == len_ymd or (known == 2 and len_ymd == 3)):
        return self._resolve_from_stridxs()

"""

DIRECT = """\
    ystridx, mstridx, dstridx = self.ystridx, self.mstridx, self.dstridx
    known = (ystridx is not None) + (mstridx is not None) + (dstridx is not None)
    if known == 2 and len_ymd == 3:
        if ystridx is None:
            ystridx = 3 - mstridx - dstridx
        elif mstridx is None:
            mstridx = 3 - ystridx - dstridx
        else:
            dstridx = 3 - ystridx - mstridx
        return self[ystridx], self[mstridx], self[dstridx]
    if known and known == len_ymd:
        return (None if ystridx is None else self[ystridx],
                None if mstridx is None else self[mstridx],
                None if dstridx is None else self[dstridx])

"""

SORTED = """\
    labels = (('y', self.ystridx), ('m', self.mstridx), ('d', self.dstridx))
    known = sorted((idx, key) for key, idx in labels if idx is not None)
    strids = {key: idx for idx, key in known}
"""


def _change(*changes: tuple[str, str]) -> Callable[[Sources], dict[str, str]]:
    def changed(sources: Sources) -> dict[str, str]:
        text = sources.base(PATH)
        function = function_source(text, NAME)
        for old, new in changes:
            function = substitute(function, old, new)
        return {PATH: replace_function(text, NAME, function)}

    return changed


def _renamed(sources: Sources) -> dict[str, str]:
    text = sources.base(PATH)
    function = function_source(text, NAME).replace("strids", "labels").replace("len_ymd", "count")
    return {PATH: replace_function(text, NAME, function)}


CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "upstream": lambda sources: sources.upstream(0),
    "counted": _change((f"{LABELS}{CONDITION}", COUNTED.rstrip("\n") + "\n"), (MONTH, "")),
    "direct": _change((f"{LABELS}{CONDITION}", DIRECT.rstrip("\n") + "\n"), (MONTH, "")),
    "label_of_year_ignored": _change((f"{YEAR_FIRST}\n", "False or\n")),
    "third_not_asked": _change(
        ("yearfirst and self[1] <= 12 and self[2] <= 31", "yearfirst and self[1] <= 12")
    ),
    "december_lost": _change(("dayfirst and self[2] <= 12", "dayfirst and self[2] < 12")),
    "day_never_first": _change(("self[0] > 12 or (dayfirst and self[1] <= 12)", "self[0] > 12")),
    "sorted_labels": _change((LABELS, SORTED)),
    "renamed": _renamed,
}
