"""Read a candidate's content from JSON values: manifests and providers' answers have the same three forms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from codeflash_parallel.model.candidate import Content, FileText, FileTexts, PatchText, Replacement

#: Fields that hold the change; exactly one of them is given.
CONTENT_FIELDS = ("edits", "patch", "replacement")


def content_of(data: Mapping[str, Any]) -> Content:
    """Return the content that an object holds.

    Args:
        data: with exactly one of ``patch``, ``replacement`` (and then perhaps ``function``) and ``edits``
            (``{path: text | null}`` or ``[{"path", "text"}]``).

    Raises:
        ValueError, TypeError: it holds none, several, or something else under that name.
    """
    given = [name for name in CONTENT_FIELDS if data.get(name) is not None]
    if len(given) != 1:
        raise ValueError(f"exactly one of {', '.join(CONTENT_FIELDS)} must be given, not {len(given)}")
    function = text_field(data, "function")
    if function and given != ["replacement"]:
        raise ValueError("function goes with replacement only")
    match given[0]:
        case "edits":
            return FileTexts(files=tuple(_edits(data["edits"])))
        case "patch":
            return PatchText(patch=text_field(data, "patch"))
        case _:
            return Replacement(code=text_field(data, "replacement"), function=function)


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
    return [FileText(path=path, text=text) for path, text in pairs]
