from __future__ import annotations

from pathlib import Path

from codeflash_parallel.workspace.git.git_client import user_git


def test_what_is_printed_of_git_has_no_environment() -> None:
    git = user_git(Path("/")).having(TOKEN="a secret")
    assert git.environment["TOKEN"] == "a secret"
    assert "a secret" not in repr(git)
    assert "cwd='/'" in repr(git)
