"""Parse trees as an interpreter walks them: deep and flat ones, and one whose branches share subtrees."""

from __future__ import annotations

from lark import Token, Tree


def _made(depth, width):
    """Return a tree whose later branches are less deep."""
    if depth == 0:
        return Tree("atom", [Token("NAME", "x")])
    branches = [_made(max(depth - 1 - number, 0), width) for number in range(width)]
    return Tree(f"level {depth}", [Token("LPAR", "("), *branches, Token("RPAR", ")")])


def _shared():
    inner = _made(3, 2)
    left = Tree("left", [inner, Tree("sum", [inner, Token("PLUS", "+"), _made(2, 2)])])
    return Tree("both", [left, inner, Tree("right", [left, inner])])


TREES = [_made(6, 3), _made(1, 200), _made(30, 1), _shared(), *(_made(2, 2) for _ in range(30))]


def main():
    return [[subtree.data for subtree in tree.iter_subtrees()] for tree in TREES]
