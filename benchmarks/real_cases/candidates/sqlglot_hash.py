"""Candidates of `sqlglot_hash`: the hash of a syntax tree, kept in each of its nodes."""

from __future__ import annotations

from collections.abc import Callable

from edits import Sources, substitute

PATH = "sqlglot/expressions/core.py"
COLLECT = """\
            nodes: list[Expr] = []
            queue: deque[Expr] = deque()
            queue.append(self)

            while queue:
                node = queue.popleft()
                nodes.append(node)

                for child in node.iter_expressions():
                    if child._hash is None:
                        queue.append(child)
"""
SORTED_ARGS = "for k, v in sorted(node.args.items()):"
LOWER = "hash_ = hash((hash_, k, v.lower() if vt is str else v))"
ITEMS = "if x is not None and x is not False:"


def _substituted(*changes: tuple[str, str, int]) -> Callable[[Sources], dict[str, str]]:
    def change(sources: Sources) -> dict[str, str]:
        text = sources.base(PATH)
        for old, new, count in changes:
            text = substitute(text, old, new, count)
        return {PATH: text}

    return change


# The list of nodes is its own queue.
ONE_LIST = """\
            nodes: list[Expr] = [self]

            for node in nodes:
                for child in node.iter_expressions():
                    if child._hash is None:
                        nodes.append(child)
"""

INLINE = """\
            nodes: list[Expr] = [self]
            append = nodes.append

            for node in nodes:
                for value in node.args.values():
                    if isinstance(value, list):
                        for item in value:
                            if isinstance(item, Expr) and item._hash is None:
                                append(item)
                    elif isinstance(value, Expr) and value._hash is None:
                        append(value)
"""

# Nodes are hashed when their parents are: too deep a tree ends in a RecursionError.
RECURSIVE = """\
            nodes: list[Expr] = [self]
"""

SEEN = """\
            nodes: list[Expr] = []
            queue: list[Expr] = [self]

            while queue:
                node = queue.pop(0)
                nodes.append(node)

                for child in list(node.iter_expressions()):
                    if child._hash is None and not any(child is each for each in queue[:50]):
                        queue = [*queue, child]
"""

SORT_FEW = "for k, v in sorted(node.args.items()) if len(node.args) > 1 else node.args.items():"

CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "upstream_inline": lambda sources: sources.upstream(0),
    "one_list": _substituted((COLLECT, ONE_LIST, 1)),
    "inline": _substituted((COLLECT, INLINE, 1)),
    "inline_sort_few": _substituted((COLLECT, INLINE, 1), (SORTED_ARGS, SORT_FEW, 2)),
    "unsorted": _substituted((COLLECT, INLINE, 1), (SORTED_ARGS, "for k, v in node.args.items():", 2)),
    "recursive": _substituted((COLLECT, RECURSIVE, 1)),
    "falsy_items": _substituted((COLLECT, INLINE, 1), (ITEMS, "if x:", 1)),
    "case_kept": _substituted((LOWER, "hash_ = hash((hash_, k, v))", 1)),
    "copied_queue": _substituted((COLLECT, SEEN, 1)),
    "renamed": _substituted((COLLECT, COLLECT.replace("queue", "waiting"), 1)),
}
