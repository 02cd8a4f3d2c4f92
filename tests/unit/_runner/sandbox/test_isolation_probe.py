"""The probe tells whether hidden files can be read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from compiled_runner import shared_runner


def test_without_isolation_what_is_hidden_can_be_read(tmp_path: Path) -> None:
    for name in ("secret", "outside"):
        (tmp_path / name).write_text("")
    places = {name: str(tmp_path / name) for name in ("secret", "outside")}
    spec = {**places, "root": str(tmp_path), "isolation": {"level": "none", "limits": {}}}
    (tmp_path / "spec").write_text(json.dumps(spec))
    probe = shared_runner() / "_codeflash_runner/sandbox/isolation_probe.py"
    done = subprocess.run(
        [sys.executable, probe, tmp_path / "spec"], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == {"why_not": "what is hidden can be read all the same", "note": ""}
    assert (tmp_path / "inside").exists()
