"""The two sides of a gate: which commits, and their trees with the head's benchmark files on both."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

from codeflash_parallel.result.errors import UsageError
from codeflash_parallel.workspace.git.git_client import GitFailed, Repository, user_git
from codeflash_parallel.workspace.snapshot.snapshot import resolve

#: Said where a clone does not reach back far enough.
_SHALLOW = "The clone is shallow: fetch the whole history (actions/checkout: fetch-depth: 0)."


def resolved_sides(repository: Repository, base: str, head: str) -> tuple[str, str]:
    """Return the commits of the two sides: the merge base of both, and the head's; empty: the working tree.

    Args:
        repository: of the user.
        base: a ref.
        head: a ref; empty: the working tree, which is based on HEAD.

    Raises:
        UsageError: `BAD_BASE`, `BAD_HEAD` or `NO_MERGE_BASE`.
    """
    hint = _SHALLOW if _is_shallow(repository) else ""
    commits = []
    for option, ref, code in (("--base", base, "BAD_BASE"), ("--head", head or "HEAD", "BAD_HEAD")):
        commit = resolve(repository, ref)
        if not commit:
            message = f"{option} {ref!r} names no commit of {repository.root}."
            raise UsageError(code, message, hint or "Fetch it first, or name another one.")
        commits.append(commit)
    try:
        fork = user_git(repository.root).text("merge-base", *commits)
    except GitFailed as error:
        message = f"{base} and {head or 'HEAD'} have no common ancestor."
        raise UsageError(
            "NO_MERGE_BASE", message, hint or "Name a --base that they have in common."
        ) from error
    return fork, commits[1] if head else ""


def _is_shallow(repository: Repository) -> bool:
    return user_git(repository.root).text("rev-parse", "--is-shallow-repository") == "true"


def shared_files(benchmarks: Iterable[str]) -> tuple[str, ...]:
    """Return the files that both sides have from the head: benchmarks, and each conftest beside and above.

    Args:
        benchmarks: files that hold them, relative to the root.
    """
    files = dict.fromkeys(benchmarks)
    folders = dict.fromkeys(folder for file in files for folder in PurePosixPath(file).parents)
    return tuple(dict.fromkeys([*files, *(str(folder / "conftest.py") for folder in folders)]))
