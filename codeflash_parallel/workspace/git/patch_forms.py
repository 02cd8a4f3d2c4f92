"""How a patch may be meant: from which folder its names count, and with which ends of lines. Light."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from codeflash_parallel.workspace.git.git_client import GitFailed

#: What git says when a patch was made for another folder, rather than for another text.
_ELSEWHERE = ("does not exist in index", "No such file", "has no filename", "lacks filename")


class PatchRefused(Exception):  # noqa: N818 - a property of the candidate
    """git refuses a patch; the message is git's own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PatchForm:
    """How the names in a patch are to be read."""

    strip: int
    folder: str

    @property
    def options(self) -> tuple[str, ...]:
        """Return the options of `git apply`."""
        return (f"-p{self.strip}", *((f"--directory={self.folder}",) if self.folder else ()))

    def place(self, name: str) -> str:
        """Return the path in the repository that a name in a patch means."""
        stripped = name.split("/", self.strip)[-1]
        return f"{self.folder}/{stripped}" if self.folder else stripped


def apply_somehow(
    patch: bytes, project: str, apply: Callable[[PatchForm, bytes], str], read: Callable[[str], bytes | None]
) -> None:
    """Try the ways in which a patch may be meant; report the most telling failure.

    Args:
        project: folder of the project in the repository; "." is the root.
        apply: applies a patch; returns what git says against it, empty when it applied.
        read: returns what a file of the repository holds, `None` if there is none.

    Raises:
        DoesNotApply: in none of them.
    """
    failures: list[str] = []
    for form in _forms(patch, project):
        for variant in _variants(patch, form, read):
            failure = apply(form, variant)
            if not failure:
                return
            failures.append(failure)
        if not any(words in failures[-1] for words in _ELSEWHERE):
            break
    telling = [failure for failure in failures if not any(words in failure for words in _ELSEWHERE)]
    raise PatchRefused((telling or failures)[0])


def _variants(patch: bytes, form: PatchForm, read: Callable[[str], bytes | None]) -> Iterator[bytes]:
    """Yield a patch as it is, and with the ends of lines that its files have, if that is another one."""
    whole = patch if patch.endswith(b"\n") else patch + b"\n"
    yield whole
    from codeflash_parallel.candidates.source_text import (  # seldom needed, and not quick
        is_crlf,
        windows_patch,
    )

    def is_windows(name: str) -> bool:
        data = read(form.place(name)) if name != "/dev/null" else None
        return data is not None and is_crlf(data)

    if (other := windows_patch(whole, is_windows)) != whole:
        yield other


def complaint(error: GitFailed) -> str:
    """Return what git says against a patch."""
    lines = [line.removeprefix("error: ").removeprefix("fatal: ") for line in error.stderr.splitlines()]
    return "; ".join(lines[:3]) or "git gives no reason"


def _forms(patch: bytes, project: str) -> Iterator[PatchForm]:
    """Yield the ways to read a patch's names: from the root, from the project's folder, without prefix."""
    folders = ("",) if project == "." else ("", project)
    prefixed = re.search(rb"^(diff --git |--- )\"?[a-z]/", patch, re.MULTILINE) is not None
    for folder in folders:
        yield PatchForm(strip=1, folder=folder)
    if not prefixed:
        for folder in folders:
            yield PatchForm(strip=0, folder=folder)
