"""What names stand for: whatever is put in the place of a function, or into it, is seen."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from codeflash_parallel._runner.integrity.function_identity import FunctionIdentities

_TEXT = """
def around(function):
    def made():
        return function()
    return made

def plain(value=1):
    return value

@around
def wrapped():
    return 1
"""


def _other() -> int:
    return 2


def _name(space: dict[str, Any]) -> None:
    space["plain"] = _other


def _code(space: dict[str, Any]) -> None:
    space["plain"].__code__ = _other.__code__


def _defaults(space: dict[str, Any]) -> None:
    space["plain"].__defaults__ = (2,)


def _inside(space: dict[str, Any]) -> None:
    space["wrapped"].__closure__[0].cell_contents = _other


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize(
    ("change", "names"),
    [
        (_name, ["m.plain"]),
        (_code, ["code of m.plain"]),
        (_defaults, ["code of m.plain"]),
        (_inside, ["m.wrapped"]),
    ],
)
def test_what_is_replaced_is_named(
    change: Callable[[dict[str, Any]], None], names: list[str], *, sealed: bool
) -> None:
    space = vars(ModuleType("m"))
    exec(_TEXT, space)
    parts = FunctionIdentities()
    parts.take("m", space)
    if sealed:
        parts.seal()
    assert parts.changed() == []
    change(space)
    assert [name for name, _ in parts.changed()] == names


def test_only_what_may_have_changed_is_looked_at() -> None:
    spaces = [vars(ModuleType(name)) for name in "mno"]
    parts = FunctionIdentities()
    for name, space in zip("mno", spaces, strict=True):
        exec(_TEXT, space)
        parts.take(name, space)
        parts.seal()
    assert parts.suspects() == [[], [], []]
    spaces[1]["more"] = _other
    _code(spaces[2])
    (space,), codes, around = parts.suspects()
    assert (space.name, space.added(), around) == ("n", [("more", _other)], [])
    assert [name for _, name, *_ in codes] == ["o"]


def test_a_class_has_other_bases_and_more_names() -> None:
    class Base:
        pass

    class Kind(Base):
        def method(self) -> int:
            return 1

    parts = FunctionIdentities()
    parts.take("Kind", vars(Kind), Kind)
    parts.seal()
    assert parts.suspects()[0] == []
    Kind.__bases__ = (type("Other", (), {}),)
    Kind.more = _other  # type: ignore[attr-defined]
    ((space,), _, _) = parts.suspects()
    assert space.has_other_bases()
    assert dict(space.added())["more"] is _other
