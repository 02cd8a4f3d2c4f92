"""Candidates of `lark_iter_subtrees`: each subtree once, children before their parents."""

from __future__ import annotations

from collections.abc import Callable

from edits import Sources, replace_function, substitute

PATH = "lark/tree.py"
TARGET = "Tree.iter_subtrees"


def _with(source: str) -> Callable[[Sources], dict[str, str]]:
    """Give the target another body."""
    return lambda sources: {PATH: replace_function(sources.base(PATH), TARGET, source)}


def _edit(*edits: tuple[str, str]) -> Callable[[Sources], dict[str, str]]:
    def texts(sources: Sources) -> dict[str, str]:
        text = sources.base(PATH)
        for old, new in edits:
            text = substitute(text, old, new)
        return {PATH: text}

    return texts


LAST_PLACE = """
def iter_subtrees(self):
    places = {}
    stack = [self]
    while stack:
        subtree = stack.pop()
        key = id(subtree)
        if places.pop(key, None) is None:
            stack += [c for c in subtree.children if isinstance(c, Tree)]
        places[key] = subtree

    for subtree in reversed(list(places.values())):
        yield subtree
"""

SHARED_ASKED = """
def iter_subtrees(self):
    visited = set()
    stack = [self]
    found = []
    while stack:
        subtree = stack.pop()
        found.append(subtree)
        if id(subtree) not in visited:
            visited.add(id(subtree))
            for c in subtree.children:
                if isinstance(c, Tree):
                    stack.append(c)

    found.reverse()
    if len(found) > len(visited):
        # Some are reached from several branches: their first place counts.
        places = {}
        for subtree in found:
            places.setdefault(id(subtree), subtree)
        found = places.values()
    for subtree in found:
        yield subtree
"""

SETDEFAULT = """
def iter_subtrees(self):
    visited = set()
    q = [self]

    l = []
    while q:
        subtree = q.pop()
        l.append( subtree )
        if id(subtree) in visited:
            continue    # already been here from another branch
        visited.add(id(subtree))
        q += [c for c in subtree.children if isinstance(c, Tree)]

    first = {}
    for x in reversed(l):
        first.setdefault(id(x), x)
    for x in first.values():
        yield x
"""

TOP_DOWN = """
def iter_subtrees(self):
    visited = set()
    q = [self]
    while q:
        subtree = q.pop()
        if id(subtree) in visited:
            continue
        visited.add(id(subtree))
        yield subtree
        q += [c for c in reversed(subtree.children) if isinstance(c, Tree)]
"""

RENAMED = """
def iter_subtrees(self):
    known = set()
    waiting = [self]

    order = []
    while waiting:
        tree = waiting.pop()
        order.append(tree)
        if id(tree) in known:
            continue
        known.add(id(tree))
        waiting += [child for child in tree.children if isinstance(child, Tree)]

    given = set()
    for tree in reversed(order):
        if id(tree) not in given:
            yield tree
            given.add(id(tree))
"""

IS_TREE = "            q += [c for c in subtree.children if isinstance(c, Tree)]\n"
GIVEN = """            if id(x) not in seen:
                yield x
                seen.add(id(x))
"""
GIVEN_LIST = """            if id(x) not in seen:
                yield x
                seen.append(id(x))
"""

CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "upstream": lambda sources: sources.upstream(0),
    "last_place": _with(LAST_PLACE),
    "shared_asked": _with(SHARED_ASKED),
    "setdefault": _with(SETDEFAULT),
    "given_again": _edit((GIVEN, "            yield x\n")),
    "exact_type": _edit((IS_TREE, IS_TREE.replace("isinstance(c, Tree)", "type(c) is Tree"))),
    "top_down": _with(TOP_DOWN),
    "given_list": _edit(("        seen = set()\n", "        seen = []\n"), (GIVEN, GIVEN_LIST)),
    "renamed": _with(RENAMED),
}
