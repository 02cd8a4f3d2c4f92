"""Patches: the forms in which one may be meant, whether it applies, and diffs of single files. Light."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from codeflash_parallel.workspace.git.git_client import GitFailed, Repository, blob_id, user_git

#: One of the two is in whatever git takes for a patch.
_PATCH = re.compile(rb"^(diff --git |@@ -)", re.MULTILINE)
#: What git says for reasons that are the patch's and its text's. Others may be the disk's: an ignored file
#: that is in the way is in no snapshot.
_CERTAIN = re.compile(
    r"patch failed: |[^;]*: patch does not apply|[^;]*: No such file|corrupt patch|patch fragment without"
)
#: git, of no repository.
_NOWHERE = {"GIT_DIR": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}

ABSENT = "000000"
_NO_BLOB = "0" * 40
#: Lines of context around a change.
_CONTEXT = 3
#: Above this many pairs of lines that differ, finding the shortest diff takes seconds: all is replaced.
_MOST_PAIRS = 4_000_000
#: Bytes of a name that git writes as they are.
_PRINTABLE = range(0x20, 0x7F)
#: How it writes some others; what is in neither is written in octal.
_ESCAPES = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 34: '"', 92: "\\"}

#: What git says when a patch was made for another folder, rather than for another text.
_ELSEWHERE = ("does not exist in index", "No such file", "has no filename", "lacks filename")


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


def file_diff(path: str, old: bytes | None, new: bytes | None, old_mode: str, new_mode: str) -> str:
    """Return the diff of one file.

    Args:
        path: in the repository.
        old, new: its bytes, `None` where there is no such file; they differ.
        old_mode, new_mode: git's, e.g. ``"100644"``; `ABSENT` where there is no such file.
    """
    a, b = _quoted(f"a/{path}"), _quoted(f"b/{path}")
    lines = [f"diff --git {a} {b}", *_head(old, new, old_mode, new_mode)]
    before, after = "/dev/null" if old is None else a, "/dev/null" if new is None else b
    if b"\0" in (old or b"") or b"\0" in (new or b""):
        lines.append(f"Binary files {before} and {after} differ")
    elif old or new:
        lines += [f"--- {before}{_tab(before)}", f"+++ {after}{_tab(after)}"]
        lines += _hunks(_lines_of(old), _lines_of(new))
    return "\n".join(lines) + "\n"


def _head(old: bytes | None, new: bytes | None, old_mode: str, new_mode: str) -> Iterator[str]:
    if old is None:
        yield f"new file mode {new_mode}"
    elif new is None:
        yield f"deleted file mode {old_mode}"
    elif old_mode != new_mode:
        yield f"old mode {old_mode}"
        yield f"new mode {new_mode}"
    blobs = [(_NO_BLOB if data is None else blob_id(data))[:7] for data in (old, new)]
    both = old is not None and new is not None and old_mode == new_mode
    yield f"index {blobs[0]}..{blobs[1]}{f' {old_mode}' if both else ''}"


def _lines_of(data: bytes | None) -> list[str]:
    text = (data or b"").decode("utf-8", "replace")
    lines = text.split("\n")
    if lines[-1]:  # no newline at the end, which counts as a difference
        return [*lines[:-1], lines[-1] + "\n\\ No newline at end of file"]
    return lines[:-1]


def _hunks(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    for group in _Known(_operations(old, new)).get_grouped_opcodes(_CONTEXT):
        first, last = group[0], group[-1]
        yield f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@"
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from (f" {line}" for line in old[i1:i2])
            else:
                yield from (f"-{line}" for line in old[i1:i2])
                yield from (f"+{line}" for line in new[j1:j2])


_Operation = tuple[Literal["replace", "delete", "insert", "equal"], int, int, int, int]


class _Known(difflib.SequenceMatcher[str]):
    """Cuts operations that are known already at long equal stretches, and keeps some lines as context."""

    def __init__(self, operations: list[_Operation]) -> None:
        super().__init__(None, "", "")
        self._operations = operations

    def get_opcodes(self) -> list[_Operation]:
        """Return them."""
        return self._operations


def _operations(old: Sequence[str], new: Sequence[str]) -> list[_Operation]:
    """Return difflib's operations; what both begin and end with is left out of the search."""
    head = _common(zip(old, new, strict=False))
    room = min(len(old), len(new)) - head
    tail = min(room, _common(zip(reversed(old), reversed(new), strict=False)))
    i2, j2 = len(old) - tail, len(new) - tail
    found: list[_Operation] = [("equal", 0, head, 0, head)]
    if (i2 - head) * (j2 - head) > _MOST_PAIRS:
        found.append(("replace", head, i2, head, j2))
    else:
        matcher = difflib.SequenceMatcher(None, old[head:i2], new[head:j2], autojunk=False)
        found += [(tag, a + head, b + head, c + head, d + head) for tag, a, b, c, d in matcher.get_opcodes()]
    found.append(("equal", i2, len(old), j2, len(new)))
    # No equal stretches meet: what is searched neither begins nor ends with the same line in both.
    return [(tag, i1, i2, j1, j2) for tag, i1, i2, j1, j2 in found if i1 < i2 or j1 < j2]


def _common(pairs: Iterator[tuple[str, str]]) -> int:
    count = 0
    for one, other in pairs:
        if one != other:
            break
        count += 1
    return count


def _range(start: int, stop: int) -> str:
    """Return a hunk's range as git writes it: a range of no lines stands behind the line before it."""
    length = stop - start
    if length == 1:
        return f"{start + 1}"
    return f"{start + 1 if length else start},{length}"


def _tab(name: str) -> str:
    """Return the tab that git puts behind a name with spaces in it."""
    return "\t" if " " in name else ""


def _quoted(name: str) -> str:
    data = name.encode("utf-8", "surrogateescape")
    if all(byte in _PRINTABLE and byte not in _ESCAPES for byte in data):
        return name
    return f'"{"".join(map(_escaped, data))}"'


def _escaped(byte: int) -> str:
    if byte in _ESCAPES:
        return "\\" + _ESCAPES[byte]
    return chr(byte) if byte in _PRINTABLE else f"\\{byte:03o}"


class PatchRefused(Exception):  # noqa: N818 - a property of the candidate
    """git refuses a patch; the message is git's own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PatchForm:
    """Form in which the names in a patch are read."""

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
        PatchRefused: in none of them.
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
