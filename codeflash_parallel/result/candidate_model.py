"""Candidates: submissions as people and programs write them, and edits of the snapshot made of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NewType

CandidateId = NewType("CandidateId", str)


def digest_of(data: bytes) -> str:
    """Return the SHA-256 of some bytes as 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def name_of(*parts: str | int | Sequence[object]) -> str:
    """Return the name of what depends on these parts, JSON values, in 24 hexadecimal digits."""
    return digest_of(json.dumps(parts).encode())[:24]


class CandidateOrigin(StrEnum):
    """Origins of a candidate."""

    #: A unified diff.
    PATCH = "patch"
    #: A new version of one function, spliced in.
    REPLACEMENT = "replacement"
    #: The answer of a language model, in Markdown.
    ANSWER = "answer"
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


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelAnswer:
    """The answer of a language model: Markdown with blocks of code that name their files.

    A block holds a whole file, or those functions of it that change.
    """

    answer: str


Content = PatchText | Replacement | GitRef | FileTexts | ModelAnswer


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
            case ModelAnswer():
                return CandidateOrigin.ANSWER
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


#: Fields that hold the change; exactly one of them is given.
CONTENT_FIELDS = ("answer", "edits", "patch", "replacement")


def encoding_fault(text: str) -> str:
    """Return why no file can hold a text, one clause; empty when one can.

    Bytes that are no UTF-8 may stand in it as `surrogateescape` has them; half an emoji is no character.
    """
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        return f"{text[error.start : error.end]!r} at character {error.start} is no whole character"
    return ""


def content_of(data: Mapping[str, Any]) -> Content:
    """Return the content that an object holds.

    Args:
        data: with exactly one of ``patch``, ``replacement`` (and then perhaps ``function``), ``answer`` and
            ``edits`` (``{path: text | null}`` or ``[{"path", "text"}]``).

    Raises:
        ValueError, TypeError: it holds none, several, or something else under that name, or a text that
            no file can hold.
    """
    given = [name for name in CONTENT_FIELDS if data.get(name) is not None]
    if len(given) != 1:
        raise ValueError(f"exactly one of {', '.join(CONTENT_FIELDS)} must be given, not {len(given)}")
    function = _file_text("function", text_field(data, "function"))
    if function and given != ["replacement"]:
        raise ValueError("function goes with replacement only")
    match given[0]:
        case "edits":
            return FileTexts(files=tuple(_edits(data["edits"])))
        case "patch":
            return PatchText(patch=_file_text("patch", text_field(data, "patch")))
        case "answer":
            return ModelAnswer(answer=_file_text("answer", text_field(data, "answer")))
        case _:
            code = _file_text("replacement", text_field(data, "replacement"))
            return Replacement(code=code, function=function)


def content_document(content: PatchText | Replacement | FileTexts | ModelAnswer) -> dict[str, Any]:
    """Return a content as the object that `content_of` reads."""
    match content:
        case PatchText(patch=patch):
            return {"patch": patch}
        case ModelAnswer(answer=answer):
            return {"answer": answer}
        case Replacement(code=code, function=function):
            return {"replacement": code, **({"function": function} if function else {})}
        case FileTexts(files=files):
            return {"edits": [{"path": file.path, "text": file.text} for file in files]}


def _file_text(field: str, text: str) -> str:
    fault = encoding_fault(text)
    if fault:
        raise ValueError(f"{field} cannot be written to a file: {fault}")
    return text


def text_field(data: Mapping[str, Any], field: str, default: str = "") -> str:
    """Return a field that must be a text, or the default where it is absent or null.

    Raises:
        TypeError: it is something else.
    """
    value = data.get(field)
    if value is None:
        return default
    if not isinstance(value, str):
        raise TypeError(f"{field} must be a text, not {type(value).__name__}")
    return value


def _edits(edits: Any) -> Iterable[FileText]:
    match edits:
        case dict():
            pairs = list(edits.items())
        case list() if all(isinstance(edit, dict) and edit.keys() == {"path", "text"} for edit in edits):
            pairs = [(edit["path"], edit["text"]) for edit in edits]
        case _:
            raise TypeError('edits must be {"path": "text"} or [{"path": ..., "text": ...}]')
    if not all(isinstance(path, str) and (text is None or isinstance(text, str)) for path, text in pairs):
        raise TypeError("paths of edits must be texts, and so must their texts (null removes the file)")
    if len({path for path, _ in pairs}) != len(pairs):
        raise ValueError("edits name a path twice")
    return [FileText(path=path, text=_edit_text(path, text)) for path, text in pairs]


def _edit_text(path: str, text: str | None) -> str | None:
    _file_text("a path of edits", path)
    return None if text is None else _file_text(f"edits of {path}", text)
