"""Rewrites by hand are texts of Python that change one function each."""

import ast
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))

from honest_rewrites import REWRITES, written

SOURCE = 'def {}(a):\n    """Words."""\n    return a\n\n\nlast = 1\n'


@pytest.mark.parametrize("package", REWRITES)
def test_each_text_comes_before_the_body_or_in_its_place(package: str) -> None:
    names = [line.split()[0] for line in REWRITES[package].splitlines() if line and line[0] != " "]
    source = "".join(SOURCE.format(name) for name in names)
    for name, candidate in written(package, source).items():
        old, new = ast.parse(source), ast.parse(candidate.text)
        changed = [n for o, n in zip(old.body, new.body, strict=True) if ast.dump(o) != ast.dump(n)]
        assert [node.name for node in changed if isinstance(node, ast.FunctionDef)] == [name]
        assert ast.get_docstring(changed[0]) == "Words."
        assert len(changed[0].body) > 1
