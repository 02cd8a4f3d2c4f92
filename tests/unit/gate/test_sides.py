"""Commits of the two sides, and the files that both have from the head."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import commit_all, git

from codeflash_parallel.gate.sides import resolved_sides, shared_files
from codeflash_parallel.result.errors import UsageError
from codeflash_parallel.workspace.git.git_client import find_repository


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for number, branch in enumerate(("main", "work")):
        if number:
            git(tmp_path, "checkout", "-q", "-b", branch)
        (tmp_path / "a.py").write_text(f"x = {number}\n")
        commit_all(tmp_path)
    return tmp_path


def test_the_base_is_the_merge_base(root: Path) -> None:
    fork, head = (git(root, "rev-parse", ref).strip() for ref in ("main", "work"))
    git(root, "checkout", "-q", "main")
    (root / "b.py").write_text("later = 1\n")
    commit_all(root)
    assert resolved_sides(find_repository(root), "main", "work") == (fork, head)
    git(root, "checkout", "-q", "work")
    assert resolved_sides(find_repository(root), "main", "") == (fork, "")


@pytest.mark.parametrize(
    ("base", "head", "code"),
    [
        ("gone", "", "BAD_BASE"),
        ("main", "gone", "BAD_HEAD"),
        ("--help", "", "BAD_BASE"),
        ("", "", "BAD_BASE"),
    ],
)
def test_refs_that_are_none(root: Path, base: str, head: str, code: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolved_sides(find_repository(root), base, head)
    assert caught.value.code == code


def test_both_sides_have_each_conftest_beside_and_above() -> None:
    assert shared_files(["bench/deep/test_a.py", "bench/test_b.py"]) == (
        "bench/deep/test_a.py",
        "bench/test_b.py",
        "bench/deep/conftest.py",
        "bench/conftest.py",
        "conftest.py",
    )
