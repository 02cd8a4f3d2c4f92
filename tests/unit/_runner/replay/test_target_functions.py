"""Functions that captured calls went to, found again."""

from __future__ import annotations

from pathlib import Path

import pytest

from codeflash_parallel._runner.replay.target_functions import TargetNotFound, Targets


def test_a_module_that_cannot_be_imported_is_tried_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = tmp_path / "tried"
    module = f"with open({str(tried)!r}, 'a') as file: file.write('x')\nimport nothing_of_that_name\n"
    (tmp_path / "fails_late.py").write_text(module, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    targets = Targets({"targets": [{"qualname": "one"}, {"qualname": "two"}]}, {})
    for target in (0, 1, 0, 1):
        with pytest.raises(TargetNotFound, match="nothing_of_that_name"):
            targets.function({"target": target, "via": "outer", "module": "fails_late"})
    assert tried.read_text(encoding="utf-8") == "x"
