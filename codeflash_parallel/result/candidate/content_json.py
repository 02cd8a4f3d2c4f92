"""Read a candidate's content from JSON values: manifests and providers' answers have the same three forms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from codeflash_parallel.result.candidate.candidate_model import (
    Content,
    FileText,
    FileTexts,
    PatchText,
    Replacement,
)

#: Fields that hold the change; exactly one of them is given.
CONTENT_FIELDS = ("edits", "patch", "replacement")


def encoding_fault(text: str) -> str:
    """Return why no file can hold a text, one clause; empty when one can.

    Bytes that are no UTF-8 may stand in it as `surrogateescape` has them; half an emoji is no character.
    """
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        return f"{text[error.start : error.end]!r} at character {error.start} is no whole character"
    return ""


def encodable(text: str) -> str:
    """Return text that any UTF-8 reader accepts: lone surrogates (undecodable file names) are escaped."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def content_of(data: Mapping[str, Any]) -> Content:
    """Return the content that an object holds.

    Args:
        data: with exactly one of ``patch``, ``replacement`` (and then perhaps ``function``) and ``edits``
            (``{path: text | null}`` or ``[{"path", "text"}]``).

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
        case _:
            code = _file_text("replacement", text_field(data, "replacement"))
            return Replacement(code=code, function=function)


def content_document(content: PatchText | Replacement | FileTexts) -> dict[str, Any]:
    """Return a content as the object that `content_of` reads."""
    match content:
        case PatchText(patch=patch):
            return {"patch": patch}
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
