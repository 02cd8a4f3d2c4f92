"""Candidates of `boltons_multireplace`: the replacement that belongs to a match of many patterns."""

from __future__ import annotations

from collections.abc import Callable

from edits import Sources, replace_function

PATH = "boltons/strutils.py"


def _with(source: str) -> Callable[[Sources], dict[str, str]]:
    """Give the target another body."""
    return lambda sources: {PATH: replace_function(sources.base(PATH), "MultiReplace._get_value", source)}


EARLY_EXIT_LOOP = '''
def _get_value(self, match):
    """Given a match object find replacement value."""
    for key, found in match.groupdict().items():
        if found:
            return self.group_map[key]
    raise IndexError('list index out of range')
'''

LASTINDEX = '''
def _get_value(self, match):
    """Given a match object find replacement value."""
    return self.group_map[f'group{match.lastindex - 1}']
'''

ALWAYS_FIRST = '''
def _get_value(self, match):
    """Given a match object find replacement value."""
    return self.group_map['group0']
'''

SWAP_KEY = '''
def _get_value(self, match):
    """Given a match object find replacement value."""
    group_dict = match.groupdict()
    key = [x for x in group_dict if group_dict[x]][-1]
    index = (int(key[len('group'):]) + 1) % len(self.group_map)
    return self.group_map[f'group{index}']
'''

SORTED_ITEMS = '''
def _get_value(self, match):
    """Given a match object find replacement value."""
    by_number = sorted(match.groupdict().items(), key=lambda item: match.re.groupindex[item[0]])
    key = [name for name, found in by_number if found][0]
    return self.group_map[key]
'''

RENAME_ONLY = '''
def _get_value(self, match):
    """Given a match object find replacement value."""
    groups = match.groupdict()
    name = [x for x in groups if groups[x]][0]
    return self.group_map[name]
'''

SYNTAX_ERROR = '''
def _get_value(self, match):
    """Given a match object find replacement value."""
    return self.group_map[match.lastgroup
'''

CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "upstream_lastgroup": lambda sources: sources.upstream(0),
    "early_exit_loop": _with(EARLY_EXIT_LOOP),
    "lastindex": _with(LASTINDEX),
    "always_first": _with(ALWAYS_FIRST),
    "swap_key": _with(SWAP_KEY),
    "sorted_items": _with(SORTED_ITEMS),
    "rename_only": _with(RENAME_ONLY),
    "syntax_error": _with(SYNTAX_ERROR),
}
