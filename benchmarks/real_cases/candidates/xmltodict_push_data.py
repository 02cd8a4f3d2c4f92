"""Candidates of `xmltodict_push_data`: an element's value goes into its parent's dictionary."""

from __future__ import annotations

from collections.abc import Callable

from edits import Sources, substitute

PATH = "xmltodict.py"
TRY = """\
        try:
            value = item[key]
            if isinstance(value, list):
                value.append(data)
            else:
                item[key] = [value, data]
        except KeyError:
            if self._should_force_list(key, data):
                item[key] = [data]
            else:
                item[key] = data
        return item
"""

# Only of a plain dictionary: others may make what is missing, or raise something of their own.
LOOK_FIRST = (
    """\
        if type(item) is dict and key not in item:
            item[key] = [data] if self._should_force_list(key, data) else data
            return item
"""
    + TRY
)

LISTS_ELSE = """\
        try:
            value = item[key]
            if not isinstance(value, list):
                item[key] = [value, data]
            else:
                value.append(data)
        except KeyError:
            item[key] = [data] if self._should_force_list(key, data) else data
        return item
"""

COPIED_LIST = """\
        try:
            value = item[key]
            if isinstance(value, list):
                value[:] = [*value, data]
            else:
                item[key] = [value, data]
        except KeyError:
            forced = bool(self._should_force_list(key, data))
            item[key] = [data] if forced else data
        return item
"""


def _change(new: str) -> Callable[[Sources], dict[str, str]]:
    return lambda sources: {PATH: substitute(sources.base(PATH), TRY, new)}


CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "look_first": _change(LOOK_FIRST),
    "lists_else": _change(LISTS_ELSE),
    "copied_list": _change(COPIED_LIST),
}
