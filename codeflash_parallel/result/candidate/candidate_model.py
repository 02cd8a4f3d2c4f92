"""What goes in: sources as people and programs write them, and candidates as the engine sees them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType

CandidateId = NewType("CandidateId", str)


def digest_of(data: bytes) -> str:
    """Return the SHA-256 of some bytes as 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def name_of(*parts: str | int | Sequence[object]) -> str:
    """Return the name of what depends on these parts, JSON values, in 24 hexadecimal digits."""
    return digest_of(json.dumps(parts).encode())[:24]


class CandidateOrigin(StrEnum):
    """Where a candidate came from."""

    #: A unified diff.
    PATCH = "patch"
    #: A new version of one function, spliced in.
    REPLACEMENT = "replacement"
    #: A git ref of the user's repository.
    REF = "ref"
    #: Explicit edits: path and new text.
    EDITS = "edits"
    #: An answer of a repair provider.
    REPAIR = "repair"
    #: An answer of a refinement provider.
    REFINEMENT = "refinement"


@dataclass(frozen=True, kw_only=True, slots=True)
class PatchText:
    """A unified diff, applied as ``git apply`` would."""

    patch: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Replacement:
    """A Python file that holds the new version of one target (and helpers and imports it needs).

    Attributes:
        code: the text of that file.
        function: ``path.py::qualname`` it replaces; empty: the run's target that it defines.
    """

    code: str
    function: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class GitRef:
    """A ref of the user's repository: what it changed since its merge base with the snapshot's base."""

    ref: str


@dataclass(frozen=True, kw_only=True, slots=True)
class FileText:
    """The whole new text of one file; `None` removes it."""

    path: str
    text: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class FileTexts:
    """New texts of whole files."""

    files: tuple[FileText, ...]


Content = PatchText | Replacement | GitRef | FileTexts


@dataclass(frozen=True, kw_only=True, slots=True)
class Submission:
    """One candidate as it was handed in.

    Attributes:
        id: unique name within the run; a file's stem unless named.
        content: the change.
        origin: overrides the origin implied by `content`; set for repairs and refinements.
        parent: the candidate that this one descends from.
        explanation: the author's words; shown, never executed.
    """

    id: CandidateId
    content: Content
    origin: CandidateOrigin | None = None
    parent: CandidateId | None = None
    explanation: str = ""

    @property
    def kind(self) -> CandidateOrigin:
        """Return where it came from."""
        if self.origin is not None:
            return self.origin
        match self.content:
            case PatchText():
                return CandidateOrigin.PATCH
            case Replacement():
                return CandidateOrigin.REPLACEMENT
            case GitRef():
                return CandidateOrigin.REF
            case FileTexts():
                return CandidateOrigin.EDITS


@dataclass(frozen=True, kw_only=True, slots=True)
class Edit:
    """One file of a candidate.

    Attributes:
        path: POSIX, relative to the root of the repository.
        old_digest: SHA-256 of the snapshot's bytes that it replaces; `None` when the file is new.
        new: the new bytes; `None` removes the file.
        executable: whether the new file has its executable bit set.
    """

    path: str
    old_digest: str | None
    new: bytes | None = field(repr=False)
    executable: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A change of the snapshot, ready to be staged.

    Attributes:
        edits: sorted by path, one a path, never empty for a real change.
        diff: the same as unified-diff text, for people and providers.
    """

    id: CandidateId
    origin: CandidateOrigin
    edits: tuple[Edit, ...]
    diff: str = field(repr=False, default="")
    parent: CandidateId | None = None
    explanation: str = ""

    @property
    def content_key(self) -> str:
        """The name of the files that it leaves, whatever it is called and wherever it came from."""
        new = [
            (edit.path, "" if edit.new is None else digest_of(edit.new), edit.executable)
            for edit in self.edits
        ]
        return name_of(new)


@dataclass(frozen=True, kw_only=True, slots=True)
class Unappliable:
    """A submission that could not become a candidate.

    Attributes:
        code: `DOES_NOT_APPLY` or `DOES_NOT_PARSE` or `PATH_NOT_ALLOWED`.
        reason: one sentence that names the hunk, path or name that failed.
    """

    code: str
    reason: str
