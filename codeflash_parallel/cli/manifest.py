"""Lines of a JSONL manifest: one candidate each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from codeflash_parallel.model.candidate import (
    CandidateId,
    Content,
    FileText,
    FileTexts,
    PatchText,
    Replacement,
    Submission,
)
from codeflash_parallel.model.errors import UsageError

#: Fields of a line that hold the change; exactly one of them is given.
_CONTENTS = ("edits", "patch", "replacement")

#: All fields of a line.
_FIELDS = frozenset({"id", "parent", "explanation", "function", *_CONTENTS})

#: Ids become file names and columns of tables.
MAX_ID = 128

#: Says "equal to the code as it is" where an id is expected.
RESERVED = frozenset({"baseline"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Handed:
    """A candidate as it was read; one whose id was not chosen by its author may be renamed."""

    submission: Submission
    named: bool


def read_manifest(name: str, text: str) -> Iterator[Handed]:
    """Yield the candidates of a manifest; empty lines are skipped, an absent id becomes the line's number.

    Raises:
        UsageError: `BAD_MANIFEST`, with file and line.
    """
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield _handed(json.loads(line), f"candidate-{number}")
            except (ValueError, TypeError) as error:
                raise UsageError("BAD_MANIFEST", f"{name}:{number}: {_told(error)}.") from error


def is_id(text: str) -> bool:
    """Tell whether a text may be a candidate's id."""
    return 0 < len(text) <= MAX_ID and text.isprintable() and "/" not in text and text not in RESERVED


def _told(error: Exception) -> str:
    return f"not JSON: {error}" if isinstance(error, json.JSONDecodeError) else str(error)


def _handed(data: Any, default_id: str) -> Handed:
    if not isinstance(data, dict):
        raise TypeError("a line must be a JSON object")
    unknown = data.keys() - _FIELDS
    if unknown:
        raise ValueError(
            f"unknown field {', '.join(sorted(unknown))}; known are {', '.join(sorted(_FIELDS))}"
        )
    name = _text(data, "id", default_id)
    parent = _text(data, "parent", "")
    if not is_id(name):
        raise ValueError(
            f"id {name!r} must be 1 to {MAX_ID} printable characters, without / and not 'baseline'"
        )
    submission = Submission(
        id=CandidateId(name),
        content=_content(data),
        parent=CandidateId(parent) if parent else None,
        explanation=_text(data, "explanation", ""),
    )
    return Handed(submission=submission, named=data.get("id") is not None)


def _content(data: Mapping[str, Any]) -> Content:
    given = [name for name in _CONTENTS if data.get(name) is not None]
    if len(given) != 1:
        raise ValueError(f"exactly one of {', '.join(_CONTENTS)} must be given, not {len(given)}")
    function = _text(data, "function", "")
    if function and given != ["replacement"]:
        raise ValueError("function goes with replacement only")
    match given[0]:
        case "edits":
            return FileTexts(files=tuple(_edits(data["edits"])))
        case "patch":
            return PatchText(patch=_text(data, "patch", ""))
        case _:
            return Replacement(code=_text(data, "replacement", ""), function=function)


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


def _text(data: Mapping[str, Any], field: str, default: str) -> str:
    value = data.get(field)
    if value is None:
        return default
    if not isinstance(value, str):
        raise TypeError(f"{field} must be a text")
    return value
