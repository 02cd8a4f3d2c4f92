"""The last words of a build that fails, and the environment that it has."""

from __future__ import annotations

from pathlib import Path

from codeflash_parallel.gate.build_cache import _apart, _last_words
from codeflash_parallel.result.outcome_codes import ExitKind
from codeflash_parallel.result.runtime_protocols import ProcessExit, Workspace


def test_the_last_lines_of_both_streams_are_told() -> None:
    ended = ProcessExit(
        ended=ExitKind.EXITED, status=1, stdout="\n".join(map(str, range(99))), stderr="bad\n"
    )
    assert _last_words(ended).splitlines() == [*map(str, range(84, 99)), "bad"]
    assert len(_last_words(ProcessExit(ended=ExitKind.EXITED, status=1, stdout="x" * 99_999))) <= 1500
    assert _last_words(ProcessExit(ended=ExitKind.NOT_STARTED, status=0, message="no sh")) == "no sh"


def test_pip_installs_beside_the_tree(tmp_path: Path) -> None:
    workspace = Workspace(
        root=tmp_path / "t",
        project=tmp_path / "t",
        user_root=tmp_path,
        interpreter=tmp_path / "python",
        private=tmp_path / "p",
        environment={"PATH": "/bin"},
        number=1,
    )
    assert _apart(workspace).environment == {"PATH": "/bin", "PIP_PREFIX": str(tmp_path / "p/prefix")}
