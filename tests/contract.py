"""The JSON contract: its schema, and the rules between fields that a schema does not say."""

from __future__ import annotations

import functools
import json
from importlib.resources import files
from typing import Any

import jsonschema

from codeflash_parallel.result.outcome_codes import CandidateStatus, Verdict
from codeflash_parallel.result.result_document import Document


def shipped_schema(name: str) -> dict[str, Any]:
    """Return a schema that is part of the package."""
    schema: dict[str, Any] = json.loads(files("codeflash_parallel.report").joinpath(name).read_text("utf-8"))
    return schema


@functools.cache
def validator() -> jsonschema.Draft202012Validator:
    """Made once a process: to hold the schema itself against its own costs more than most documents."""
    return jsonschema.Draft202012Validator(
        shipped_schema("schema.json"), format_checker=jsonschema.FormatChecker()
    )


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
