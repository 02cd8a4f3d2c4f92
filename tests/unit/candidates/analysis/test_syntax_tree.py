from __future__ import annotations

import ast

from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.candidates.analysis.syntax_tree import skeleton


@given(st.text("ab(),'\"[]= \n", max_size=20), st.text("ab(),'\"[]= \n", max_size=20))
def test_equal_skeletons_mean_equal_trees(one, other):
    try:
        trees = ast.parse("0\n" + one), ast.parse("0\n" + other)
    except SyntaxError:
        return
    assert (skeleton(trees[0]) == skeleton(trees[1])) == (ast.dump(trees[0]) == ast.dump(trees[1]))
