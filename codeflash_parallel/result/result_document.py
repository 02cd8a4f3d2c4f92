"""The JSON contract: a run's result as a document; `docs/json_schema.py` makes its schema."""

from __future__ import annotations

import math
from typing import Any

from codeflash_parallel.result.codec import to_plain
from codeflash_parallel.result.errors import CodeflashParallelError
from codeflash_parallel.result.result_model import (
    SCHEMA_VERSION,
    CandidateResult,
    RunFault,
    RunResult,
)
from codeflash_parallel.result.safe_text import encodable

Document = dict[str, Any]


def document(result: RunResult) -> Document:
    """Return a run's result as the JSON contract has it: plain dictionaries, lists, strings and numbers."""
    plain = {"schema_version": SCHEMA_VERSION, **to_plain(result)}
    plain["candidates"] = [candidate_document(one) for one in result.candidates]
    return _object(plain)


def candidate_document(candidate: CandidateResult) -> Document:
    """Return the part of the document about one candidate."""
    plain: Document = to_plain(candidate)
    del plain["diff"]  # it stands in the file that diff_path names
    for name in ("duplicate_of", "diff_path"):
        plain[name] = plain[name] or None
    plain["speedup"] = _finite_speedup(plain["speedup"])
    plain["group_speedups"] = [group for group in plain["group_speedups"] if _finite_speedup(group)]
    if race := plain["race"]:
        race |= {clock: _finite_speedup(race[clock]) for clock in ("cpu", "wall")}
    return _object(plain)


def error_document(error: CodeflashParallelError) -> Document:
    """Return the document of a run that failed before it could have a result."""
    fault = RunFault(family=error.family, code=error.code, message=error.message, hint=error.hint)
    return document(RunResult(run_id="", complete=False, error=fault))


def _finite_speedup(speedup: Document | None) -> Document | None:
    """Return a speedup; an estimate or bound that is no number (nothing was timed) is none at all."""
    return (
        speedup if speedup and all(math.isfinite(speedup[n]) for n in ("estimate", "low", "high")) else None
    )


def _object(values: Document) -> Document:
    return {encodable(name): readable(value) for name, value in values.items()}


def readable(value: Any) -> Any:
    """Return JSON values with text that every reader accepts, and null for what is no number."""
    match value:
        case str():
            return encodable(value)
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return _object(value)
        case list():
            return [readable(item) for item in value]
        case _:
            return value
