"""Whether a patch can apply to the tree on the disk, seen without a snapshot: one git process. Light.

Only what is certain counts: a patch that is refused here would be refused when its turn has come. git works
on plain files, without the repository's settings: nobody's filters are run.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress

from codeflash_parallel.workspace.git.git_client import GitFailed, user_git
from codeflash_parallel.workspace.git.patch_forms import PatchForm, PatchRefused, apply_somehow, complaint
from codeflash_parallel.workspace.git.repository import Repository

#: One of the two is in whatever git takes for a patch.
_PATCH = re.compile(rb"^(diff --git |@@ -)", re.MULTILINE)
#: What git says for reasons that are the patch's and its text's. Others may be the disk's: an ignored file
#: that is in the way is in no snapshot.
_CERTAIN = re.compile(
    r"patch failed: |[^;]*: patch does not apply|[^;]*: No such file|corrupt patch|patch fragment without"
)
#: git, of no repository.
_NOWHERE = {"GIT_DIR": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}


def why_no_patch(patch: bytes) -> str:
    """Return why a text is no patch at all; empty: it may be one."""
    return "" if _PATCH.search(patch) else "There is no patch in it."


def why_not_applicable(repository: Repository, patch: bytes) -> str:
    """Return why a patch applies to no tree with the files that are on the disk; empty: it may."""
    if (repository.git_dir / "info" / "sparse-checkout").exists():  # a snapshot has what the disk lacks
        return ""
    git = user_git(repository.root).having(**_NOWHERE)
    uncertain: list[str] = []

    def check(form: PatchForm, variant: bytes) -> str:
        try:
            git.run("apply", "--check", "--whitespace=nowarn", *form.options, "-", stdin=variant)
        except GitFailed as error:
            said = complaint(error)
            uncertain.extend([] if _CERTAIN.match(said) else [said])
            return said
        return ""

    def read(path: str) -> bytes | None:
        with suppress(OSError, ValueError):
            return (repository.root / path).read_bytes()
        return None

    try:
        apply_somehow(patch, str(repository.project), check, read)
    except PatchRefused as error:
        return "" if uncertain else f"It does not apply: {error}."
    return ""
