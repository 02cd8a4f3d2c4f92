"""Lines of a JSONL manifest: one candidate each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from codeflash_parallel.result.candidate.candidate_model import CandidateId, Submission
from codeflash_parallel.result.candidate.content_json import CONTENT_FIELDS, content_of, text_field
from codeflash_parallel.result.errors import UsageError

#: All fields of a line.
_FIELDS = frozenset({"id", "parent", "explanation", "function", *CONTENT_FIELDS})

#: Ids become file names and columns of tables.
MAX_ID = 128

#: Says "equal to the code as it is" where an id is expected.
RESERVED = frozenset({"baseline"})


class ManifestEntry(NamedTuple):
    """A candidate as it was read; one whose id was not chosen by its author may be renamed."""

    submission: Submission
    named: bool


def read_manifest(name: str, text: str) -> Iterator[ManifestEntry]:
    """Yield the candidates of a manifest; empty lines are skipped, an absent id becomes the line's number.

    Raises:
        UsageError: `BAD_MANIFEST`, with file and line.
    """
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield _handed(json.loads(line), f"candidate-{number}")
            except (ValueError, TypeError, RecursionError) as error:
                raise UsageError("BAD_MANIFEST", f"{name}:{number}: {_told(error)}.") from error


def is_id(text: str) -> bool:
    """Tell whether a text may be a candidate's id."""
    return 0 < len(text) <= MAX_ID and text.isprintable() and "/" not in text and text not in RESERVED


def _told(error: Exception) -> str:
    return f"not JSON: {error}" if isinstance(error, json.JSONDecodeError) else str(error)


def _handed(data: Any, default_id: str) -> ManifestEntry:
    if not isinstance(data, dict):
        raise TypeError("a line must be a JSON object")
    unknown = data.keys() - _FIELDS
    if unknown:
        raise ValueError(
            f"unknown field {', '.join(sorted(unknown))}; known are {', '.join(sorted(_FIELDS))}"
        )
    name = text_field(data, "id", default_id)
    parent = text_field(data, "parent", "")
    if not is_id(name):
        raise ValueError(
            f"id {name!r} must be 1 to {MAX_ID} printable characters, without / and not 'baseline'"
        )
    submission = Submission(
        id=CandidateId(name),
        content=content_of(data),
        parent=CandidateId(parent) if parent else None,
        explanation=text_field(data, "explanation", ""),
    )
    return ManifestEntry(submission=submission, named=data.get("id") is not None)
