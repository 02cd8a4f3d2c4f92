"""The JSON contract: a run's result as a document, made of what JSON has. `report` holds its schema."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from codeflash_parallel.result.candidate.content_json import encodable
from codeflash_parallel.result.check_evidence import MAX_IDS
from codeflash_parallel.result.errors import CodeflashParallelError
from codeflash_parallel.result.outcome_codes import CandidateStatus, Verdict
from codeflash_parallel.result.result_model import (
    SCHEMA_VERSION,
    CandidateResult,
    RaceFigures,
    RunFault,
    RunResult,
    Speedup,
)

Document = dict[str, Any]


def document(result: RunResult) -> Document:
    """Return a run's result as the JSON contract says it: plain dictionaries, lists, strings and numbers."""
    shown = _shallow(result)
    shown["candidates"] = [candidate_document(candidate) for candidate in result.candidates]
    return {"schema_version": SCHEMA_VERSION, **_plain(shown)}


def candidate_document(candidate: CandidateResult) -> Document:
    """Return what the document says about one candidate."""
    plain: Document = _plain(_candidate(candidate))
    return plain


def error_document(error: CodeflashParallelError, *, run_id: str = "") -> Document:
    """Return the document of a run that failed before it could have a result."""
    fault = RunFault(family=error.family, code=error.code, message=error.message, hint=error.hint)
    return document(RunResult(run_id=run_id, complete=False, error=fault))


def check_invariants(data: Document) -> list[str]:
    """Return the rules between fields that a document breaks, as sentences; none for a sound one."""
    verdict, winner, tie_set = data["verdict"], data["winner"], data["tie_set"]
    by_id = {candidate["id"]: candidate for candidate in data["candidates"]}
    decided = verdict in {Verdict.WINNER, Verdict.TIE}
    rules = {
        "the verdict is null iff there is an error or the run is incomplete": (
            (verdict is None) == (data["error"] is not None or not data["complete"])
        ),
        "a winner is named iff the verdict is winner or tie": (winner is not None) == decided,
        "the winner is a candidate that won or tied": winner is None
        or by_id.get(winner, {}).get("status") in {CandidateStatus.WON, CandidateStatus.TIED},
        "a tie set is given iff the verdict is tie": bool(tie_set) == (verdict == Verdict.TIE),
        "the winner of a tie is in the tie set": not tie_set or winner in tie_set,
        "the tie set holds candidates": set(tie_set) <= by_id.keys(),
        "ids are unique": len(by_id) == len(data["candidates"]),
        "a lineage ends with the parent": all(_lineage_is_sound(c) for c in data["candidates"]),
        "duplicates name what they repeat, others do not": all(
            (c["duplicate_of"] is not None) == (c["status"] == CandidateStatus.DUPLICATE)
            for c in data["candidates"]
        ),
    }
    return [rule for rule, holds in rules.items() if not holds]


def _lineage_is_sound(candidate: Document) -> bool:
    lineage = candidate["lineage"]
    return bool((lineage[-1] if lineage else None) == candidate["parent"])


def _shallow(value: Any) -> Document:
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _candidate(candidate: CandidateResult) -> Document:
    shown = _shallow(candidate)
    del shown["diff"]  # it stands in the file that diff_path names
    shown["duplicate_of"] = candidate.duplicate_of or None
    shown["diff_path"] = candidate.diff_path or None
    shown["overhead_ms"] = _finite(candidate.overhead_ms)
    shown["speedup"] = _speedup(candidate.speedup)
    shown["race"] = _race(candidate.race)
    shown["tests"] = asdict(candidate.tests)
    for name in ("failed_ids", "missing_ids"):
        shown["tests"][name] = shown["tests"][name][:MAX_IDS]
    shown["group_speedups"] = [
        {"group": group, **plain}
        for group, speedup in candidate.group_speedups
        if (plain := _speedup(speedup)) is not None
    ]
    return shown


def _speedup(speedup: Speedup | None) -> Document | None:
    """Return a speedup; an estimate or bound that is no number (nothing was timed) is none at all."""
    if speedup is None or not all(map(math.isfinite, (speedup.estimate, speedup.low, speedup.high))):
        return None
    return asdict(speedup)


def _race(figures: RaceFigures | None) -> Document | None:
    if figures is None:
        return None
    clocks = {name: _speedup(getattr(figures, name)) for name in ("cpu", "wall")}
    numbers = ("seen", "unseen", "calls_per_s", "baseline_calls_per_s")
    return _shallow(figures) | clocks | {name: _finite(getattr(figures, name)) for name in numbers}


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None


def _plain(value: Any) -> Any:
    """Return a value made of what JSON has, with text that every reader accepts."""
    match value:
        case str():
            return encodable(str(value))  # enumerations are strings that say their value
        case float():
            return _finite(value)
        case bool() | int() | None:
            return value
        case Mapping():
            return {encodable(str(key)): _plain(item) for key, item in value.items() if not _is_nan(item)}
        case list() | tuple():
            return [_plain(item) for item in value]
        case _:
            return _plain(_shallow(value))


def _is_nan(item: Any) -> bool:
    """Tell a timing that is no number: it is left out rather than reported as null."""
    return isinstance(item, float) and not math.isfinite(item)
