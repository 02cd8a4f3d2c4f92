from __future__ import annotations

import pytest

from codeflash_parallel.candidates.target import Target
from codeflash_parallel.result.errors import UsageError


@pytest.mark.parametrize(
    "text", ["pkg/mod.py::Shape.area", "pkg/mod.py::Shape::area", "./pkg/mod.py::Shape.area"]
)
def test_a_target_is_a_file_and_a_dotted_name(text: str) -> None:
    target = Target.parse(text)
    assert (target.path, target.qualname, target.name) == ("pkg/mod.py", "Shape.area", "area")
    assert str(target) == "pkg/mod.py::Shape.area"


@pytest.mark.parametrize("text", ["", "shop::total", "/m.py::f", "../m.py::f", "m.py", "m.py::", "m.py::a b"])
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        Target.parse(text)
    assert caught.value.code == "BAD_FUNCTION"
