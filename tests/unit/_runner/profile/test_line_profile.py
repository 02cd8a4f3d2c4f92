from __future__ import annotations

import gc
from pathlib import Path

import pytest

from codeflash_parallel._runner.profile.line_profile import find_functions


@pytest.mark.slow
def test_functions_that_the_project_froze_are_found(tmp_path: Path) -> None:
    path = tmp_path / "shop.py"
    path.write_text("def total(values):\n    return sum(values)\n", encoding="utf-8")
    names: dict[str, object] = {}
    exec(compile(path.read_bytes(), path, "exec"), names)  # the text is ours
    gc.freeze()
    try:
        spec = {"root": str(tmp_path), "targets": [{"path": "shop.py", "qualname": "total"}]}
        assert find_functions(spec) == [names["total"]]
    finally:
        gc.unfreeze()
