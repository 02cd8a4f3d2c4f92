"""Request for a snapshot, and the commit that a ref names. Light."""

from __future__ import annotations

from typing import NamedTuple

from codeflash_parallel.config.settings import Settings
from codeflash_parallel.result.errors import UsageError
from codeflash_parallel.workspace.git.git_client import GitFailed, user_git
from codeflash_parallel.workspace.git.repository import Repository


class SnapshotRequest(NamedTuple):
    """Request for a snapshot.

    Attributes:
        base: a ref of the user's repository; empty: the tree as it is on disk.
        include_ignored: patterns of ignored files that are wanted.
        extra_tests: folder of tests that are overlaid; empty: none.
        protected: paths that candidates may not touch.
    """

    base: str = ""
    include_ignored: tuple[str, ...] = ()
    extra_tests: str = ""
    protected: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: Settings) -> SnapshotRequest:
        """Return what the snapshot of an evaluation is taken of."""
        return cls(
            base=settings.base,
            include_ignored=settings.include_ignored,
            extra_tests=settings.extra_tests,
            protected=(settings.accept.partition("::")[0],) if settings.accept else (),
        )


def no_work_tree(repository: Repository) -> UsageError:
    """Return the error of a bare repository where nothing is named to start from."""
    hint = "Name what to start from with --base."
    return UsageError("BAD_BASE", f"{repository.root} is bare: it has no work tree.", hint)


def resolve(repository: Repository, ref: str) -> str:
    """Return the commit that a ref of the user's repository names; empty if there is none."""
    try:
        return user_git(repository.root).text(
            "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}"
        )
    except GitFailed:
        return ""
