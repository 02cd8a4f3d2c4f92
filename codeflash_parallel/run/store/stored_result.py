"""A stored document as a result again, for `show`, `apply` and everything else that looks back."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from codeflash_parallel.result.codec import from_plain
from codeflash_parallel.result.errors import EnvironmentFault
from codeflash_parallel.result.result_document import Document
from codeflash_parallel.result.result_model import SCHEMA_VERSION, CandidateResult, GroupSpeedup, RunResult


def stored_result(data: Document) -> RunResult:
    """Return the result that a document was made from; diffs are read from where it says they are.

    Raises:
        EnvironmentFault: `BAD_RESULT` when it is not a document, or one of another major schema version.
    """
    try:
        _require_same_major(data["schema_version"])
        return _run(data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise EnvironmentFault("BAD_RESULT", f"The stored result cannot be read: {error!r}.") from error


def _require_same_major(version: str) -> None:
    if version.partition(".")[0] != SCHEMA_VERSION.partition(".")[0]:
        raise EnvironmentFault(
            "BAD_RESULT",
            f"The stored result has schema version {version}, this program reads {SCHEMA_VERSION}.",
            "Show it with the version that wrote it, or evaluate again.",
        )


def _run(data: Document) -> RunResult:
    candidates = [_candidate(candidate) for candidate in data["candidates"]]
    result: RunResult = from_plain(RunResult, {**_known(RunResult, data), "candidates": candidates})
    return result


def _candidate(data: Document) -> Document:
    """Return the object of a candidate that the codec reads."""
    return {
        **_known(CandidateResult, data),
        "duplicate_of": data["duplicate_of"] or "",
        "diff_path": data["diff_path"] or "",
        "diff": _diff(data["diff_path"]),
        "group_speedups": [_known(GroupSpeedup, group) for group in data["group_speedups"]],
    }


def _known(kind: type, data: Document) -> Document:
    """Return the fields that this version knows: later minor versions add some."""
    return {field.name: data[field.name] for field in fields(kind) if field.name in data}


def _diff(path: str | None) -> str:
    """Return the diff's text; a diff that was cleaned away is shown as none."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace") if path else ""
    except OSError:
        return ""
