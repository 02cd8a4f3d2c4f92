"""A stored document as a result again, for `show`, `apply` and everything else that looks back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from codeflash_parallel.result.candidate.candidate_model import CandidateId, CandidateOrigin
from codeflash_parallel.result.check_evidence import FailedTest, FirstDifference, TestCounts, ValueCounts
from codeflash_parallel.result.errors import EnvironmentFault
from codeflash_parallel.result.line_profile import LineProfile
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, FlagKind, Level, Verdict
from codeflash_parallel.result.result_document import Document
from codeflash_parallel.result.result_model import (
    SCHEMA_VERSION,
    CandidateResult,
    Flag,
    RaceFigures,
    RunFault,
    RunResult,
    Speedup,
)

#: Fields of a run that stand in the document exactly as in the result.
_SAME = (
    "run_id", "complete", "isolation", "isolation_requested", "compare", "snapshot", "base", "seed", "python",
    "tests_selected", "timings", "load", "repository", "run_dir", "summary", "race", "steps_ms",
    "slots", "warm",
)  # fmt: skip

#: Fields of a candidate that stand there likewise.
_SAME_OF_A_CANDIDATE = (
    "reason", "explanation", "overhead_ms", "kept_slot", "reproduce", "timings_ms", "gate_ms", "isolation_ms",
    "served", "served_why",
)  # fmt: skip


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
    return RunResult(
        **{name: data[name] for name in _SAME},
        pass_env=tuple(data["pass_env"]),
        error=RunFault(**data["error"]) if data["error"] else None,
        verdict=Verdict(data["verdict"]) if data["verdict"] else None,
        winner=_id(data["winner"]),
        tie_set=tuple(map(CandidateId, data["tie_set"])),
        targets=tuple(data["targets"]),
        level=Level(data["level"]),
        quarantined=tuple(data["quarantined"]),
        warnings=tuple(data["warnings"]),
        candidates=tuple(_candidate(candidate) for candidate in data["candidates"]),
        winner_profile=LineProfile.of(data["winner_profile"]),
        baseline_profile=LineProfile.of(data["baseline_profile"]),
    )


def _candidate(data: Document) -> CandidateResult:
    return CandidateResult(
        **{name: data[name] for name in _SAME_OF_A_CANDIDATE},
        id=CandidateId(data["id"]),
        origin=CandidateOrigin(data["origin"]),
        status=CandidateStatus(data["status"]),
        code=Code(data["code"]),
        parent=_id(data["parent"]),
        lineage=tuple(map(CandidateId, data["lineage"])),
        duplicate_of=data["duplicate_of"] or "",
        tests=TestCounts(**_tuples(data["tests"])),
        values=ValueCounts(**(_tuples(data["values"]) | {"level": Level(data["values"]["level"])})),
        speedup=Speedup(**data["speedup"]) if data["speedup"] else None,
        diff_path=data["diff_path"] or "",
        diff=_diff(data["diff_path"]),
        difference=FirstDifference(**data["difference"]) if data["difference"] else None,
        outside=FirstDifference(**data["outside"]) if data["outside"] else None,
        failures=tuple(FailedTest(**failure) for failure in data["failures"]),
        group_speedups=tuple(_group(group) for group in data["group_speedups"]),
        notes=tuple(data["notes"]),
        hints=tuple(data["hints"]),
        race=_race(data["race"]),
        flags=tuple(Flag(**{**flag, "kind": FlagKind(flag["kind"])}) for flag in data["flags"]),
    )


def _race(data: Document | None) -> RaceFigures | None:
    if data is None:
        return None
    clocks = {name: Speedup(**data[name]) if data[name] else None for name in ("cpu", "wall")}
    return RaceFigures(**{**data, **clocks})


def _group(data: Document) -> tuple[str, Speedup]:
    return data["group"], Speedup(**{name: value for name, value in data.items() if name != "group"})


def _id(value: str | None) -> CandidateId | None:
    return None if value is None else CandidateId(value)


def _tuples(data: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}


def _diff(path: str | None) -> str:
    """Return the diff's text; a diff that was cleaned away is shown as none."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace") if path else ""
    except OSError:
        return ""
