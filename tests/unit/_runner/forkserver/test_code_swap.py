"""Places of code objects in a module, and what of a module has been executed when it is imported."""

from __future__ import annotations

import types
from pathlib import Path

import pytest

from codeflash_parallel._runner.forkserver import code_swap

TEXT = """
class A:
    value = 0.0
    def method(self):
        return [inner for inner in self.things()]

def function(x=1):
    def inside():
        return x
    return inside
"""


def outline(text: str, opaque: tuple[str, ...] = ()) -> list[tuple[str, types.CodeType]]:
    return code_swap._outline(compile(text, "m.py", "exec"), opaque)


def test_code_is_named_by_its_place() -> None:
    names = [name for name, _ in outline(TEXT)]
    assert names[:3] == ["", "A", "A.method"]
    assert names[-2:] == ["function", "function.<locals>.inside"]
    assert "function.<locals>.inside" not in [name for name, _ in outline(TEXT, ("function",))]


@pytest.mark.parametrize(
    ("old", "new", "is_same"),
    [
        ("return x", "return x + 1", True),
        ("class A", "\n\nclass A", True),
        ("x=1", "x=2", False),
        ("x=1", "x=True", False),
        ("0.0", "-0.0", False),
        ("def method", "def renamed", False),
        ("self.things()", "sorted(self.things())", True),
        ("self.things()", "super().things()", False),
    ],
)
def test_what_an_import_has_executed_is_compared(old: str, new: str, is_same: bool) -> None:
    assert old in TEXT
    before, after = (map(code_swap._executed, outline(text)) for text in (TEXT, TEXT.replace(old, new)))
    assert (list(before) == list(after)) is is_same


@pytest.mark.slow
def test_functions_made_from_files_are_found(tmp_path: Path) -> None:
    path = str(tmp_path / "made.py")
    space: dict[str, object] = {}
    code = compile("def made(): pass", path, "exec")
    assert code_swap.made_from({path}) == ""
    exec(code, space)
    assert code_swap.made_from({path}) == "made"
    assert code_swap.made_from({path}, {id(inner) for _, inner in code_swap._outline(code, ())}) == ""
