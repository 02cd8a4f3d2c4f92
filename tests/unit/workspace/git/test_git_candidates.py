"""Candidates of the user's repository: worktrees with uncommitted work, ranges, branches; nothing is written."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from worktree_support import GIT, fingerprint

from codeflash_parallel.result.candidate_model import FileTexts, GitRef, PatchText
from codeflash_parallel.result.errors import UsageError
from codeflash_parallel.workspace.git.git_candidates import FoundCandidate, find_candidates


def git(at: Path, *arguments: str) -> str:
    done = subprocess.run((*GIT, *arguments), cwd=at, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a main branch and two linked worktrees that have left it."""
    root = tmp_path / "shop"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    (root / "cart.py").write_text("def total(x):\n    return x\n")
    (root / "old.py").write_text("OLD = 1\n")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "first")
    for name in ("one", "two"):
        git(root, "worktree", "add", "-q", "-b", f"opt/{name}", str(tmp_path / name))
    (root / "later.py").write_text("LATER = 1\n")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "later")
    return root


def found(repository: Path, text: str, base: str = "") -> list[FoundCandidate]:
    before = fingerprint(repository.parent)
    candidates = find_candidates(repository, base, text)
    assert fingerprint(repository.parent) == before
    assert candidates is not None
    return candidates


def patch_of(candidate: FoundCandidate) -> str:
    assert isinstance(candidate.content, PatchText)
    return candidate.content.patch


def test_a_worktree_gives_all_that_it_changes(repository: Path) -> None:
    one = repository.parent / "one"
    (one / "cart.py").write_text("def total(x):\n    return x + 0\n")
    git(one, "commit", "-q", "-a", "-m", "faster")
    (one / "cart.py").write_text("def total(x):\n    return x + 1\n")  # not committed
    (one / "néw file.py").write_text("NEW = 1\n")  # untracked
    (one / "data.bin").write_bytes(bytes(range(256)))
    (one / "old.py").unlink()
    (one / ".gitignore").write_text("*.log\n")
    (one / "made.log").write_text("ignored")
    (one / "__pycache__").mkdir()
    (one / "__pycache__" / "cart.pyc").write_bytes(b"\0")
    changed, same = found(repository, "worktrees")
    assert (changed.name, same.name) == ("opt/one", "opt/two")
    assert same.content == FileTexts(files=())
    assert str(one) in changed.explanation
    patch = patch_of(changed)
    assert "+    return x + 1\n" in patch
    assert "x + 0" not in patch
    assert "GIT binary patch" in patch
    names = [line.split(" b/")[-1] for line in patch.splitlines() if line.startswith("diff --git ")]
    assert names == [".gitignore", "cart.py", "data.bin", "néw file.py", "old.py"]
    again = repository.parent / "again"
    git(repository, "worktree", "add", "-q", "--detach", str(again), "main~1")
    subprocess.run((*GIT, "apply", "-"), cwd=again, check=True, input=patch.encode())
    assert (again / "cart.py").read_text() == (one / "cart.py").read_text()
    assert (again / "data.bin").read_bytes() == bytes(range(256))
    assert not (again / "old.py").exists()


def test_a_split_index_is_left_alone(repository: Path) -> None:
    one = repository.parent / "one"
    git(one, "update-index", "--split-index")
    (one / "cart.py").write_text("def total(x):\n    return x + 1\n")
    assert "+    return x + 1\n" in patch_of(found(repository, "worktrees=one")[0])


def test_a_pattern_names_a_branch_a_folder_or_a_path(repository: Path) -> None:
    git(repository, "worktree", "add", "-q", "--detach", str(repository.parent / "loose"))
    assert [one.name for one in found(repository, "worktrees")] == ["loose", "opt/one", "opt/two"]
    assert [one.name for one in found(repository, "worktrees=opt/t*")] == ["opt/two"]
    assert [one.name for one in found(repository, "worktrees=one")] == ["opt/one"]
    assert [one.name for one in found(repository, "worktrees=*/loose")] == ["loose"]


def test_the_current_worktree_and_lost_ones_are_left_out(repository: Path) -> None:
    two = repository.parent / "two"
    candidates = find_candidates(two, "", "worktrees")
    assert [one.name for one in candidates or ()] == ["opt/one"]
    two.rename(repository.parent / "moved")
    assert [one.name for one in found(repository, "worktrees")] == ["opt/one"]


def test_commits_of_a_range_come_in_their_order(repository: Path) -> None:
    one = repository.parent / "one"
    commits = []
    for subject in ("try a table", "try a loop"):
        (one / "cart.py").write_text(f"# {subject}\n")
        git(one, "commit", "-q", "-a", "-m", subject)
        commits.append(git(one, "rev-parse", "HEAD"))
    candidates = found(repository, "main..opt/one")
    assert [candidate.content for candidate in candidates] == [GitRef(ref=commit) for commit in commits]
    assert [candidate.explanation for candidate in candidates] == ["try a table", "try a loop"]
    assert all(commit.startswith(one.name) for commit, one in zip(commits, candidates, strict=True))


def test_a_pattern_of_branches(repository: Path) -> None:
    candidates = found(repository, "opt/*")
    assert [(one.name, one.content) for one in candidates] == [
        ("opt/one", GitRef(ref="refs/heads/opt/one")),
        ("opt/two", GitRef(ref="refs/heads/opt/two")),
    ]
    assert [one.name for one in found(repository, "*")] == ["opt/one", "opt/two"]  # not the current one


@pytest.mark.parametrize("text", ["worktrees=none*", "feature/*", "main..main"])
def test_what_matches_nothing_is_said_in_one_line(repository: Path, text: str) -> None:
    with pytest.raises(UsageError, match="matches nothing") as caught:
        find_candidates(repository, "", text)
    assert caught.value.code == "NO_CANDIDATES"
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("text", ["main..gone", "--output=x..main"])
def test_what_git_cannot_read_is_said_in_one_line(repository: Path, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        find_candidates(repository, "", text)
    assert caught.value.code == "BAD_CANDIDATES"
    assert "\n" not in caught.value.message


def test_a_worktree_without_a_common_ancestor_does_not_keep_the_others_out(repository: Path) -> None:
    orphan = repository.parent / "orphan"
    git(repository, "worktree", "add", "-q", "--detach", str(orphan))
    git(orphan, "checkout", "-q", "--orphan", "alone")
    git(orphan, "commit", "-q", "-m", "alone")
    alone, *others = found(repository, "worktrees")
    assert alone.content == GitRef(ref=git(orphan, "rev-parse", "HEAD"))
    assert [one.name for one in others] == ["opt/one", "opt/two"]


@pytest.mark.parametrize(
    "text", ["candidates", "a/b.patch", "-", "worktree", "../gone", "a/../b", "main...opt"]
)
def test_other_texts_are_not_of_the_repository(repository: Path, text: str) -> None:
    assert find_candidates(repository, "", text) is None
