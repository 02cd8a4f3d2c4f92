"""Runs on disk: one folder a run, with the result's document, the edits of every candidate and the diffs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

from codeflash_parallel.process.files import write_atomically, write_durably
from codeflash_parallel.result.candidate_model import Candidate, Edit
from codeflash_parallel.result.codec import from_plain, to_plain
from codeflash_parallel.result.errors import CodeflashParallelError, EnvironmentFault, UsageError
from codeflash_parallel.result.result_document import Document, document
from codeflash_parallel.result.result_model import (
    SCHEMA_VERSION,
    CandidateResult,
    GroupSpeedup,
    RunFault,
    RunResult,
)
from codeflash_parallel.run.run_state import REQUEST, RunState, StepCache, StepKind, is_alive, read_state
from codeflash_parallel.workspace.snapshot.snapshot import Snapshot

#: Names a user may give instead of a run's id.
LAST = "last"
_RESULT = "result.json"


def save_diff(run_dir: Path, candidate: Candidate) -> Path:
    """Write a candidate's diff and return its path."""
    path = run_dir / "diffs" / f"{_file_name(candidate.id)}.diff"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, candidate.diff.encode("utf-8", "surrogateescape"))
    return path


def save_run(run_dir: Path, result: RunResult, candidates: Iterable[Candidate]) -> None:
    """Write a run's document and its candidates' edits, each file whole or not at all."""
    edits = {c.id: to_plain(c.edits, tuple[Edit, ...]) for c in candidates}
    write_durably(run_dir / "edits.json", json.dumps(edits).encode())
    write_durably(run_dir / _RESULT, json.dumps(document(result), indent=1).encode())


def load_document(run_dir: Path) -> dict[str, Any]:
    """Return the document of a stored run; of one that is alive or was killed, what its other files hold.

    Raises:
        EnvironmentFault: `BAD_RUN`: it is not there or cannot be read.
    """
    if not (run_dir / _RESULT).exists() and (run_dir / REQUEST).exists():
        return document(_unfinished(run_dir))
    loaded: dict[str, Any] = _read(run_dir / _RESULT)
    return loaded


def _unfinished(run_dir: Path) -> RunResult:
    """Return what is known of a run that has no result."""
    state = read_state(run_dir)
    snapshot: Snapshot | None = StepCache(run_dir).get(Snapshot, StepKind.SNAPSHOT)
    return RunResult(
        run_id=run_dir.name,
        complete=False,
        error=_why_unfinished(run_dir, state),
        compare=str(state.request.settings.get("compare", "values")),
        snapshot=snapshot.commit if snapshot else "",
        base=snapshot.base if snapshot else "",
        seed=state.request.seed,
        repository=state.request.repository,
        run_dir=str(run_dir),
        summary=f"{state.progress}.",
    )


def _why_unfinished(run_dir: Path, state: RunState) -> RunFault:
    hint = f"`codeflash-parallel resume {run_dir.name}` continues it."
    if is_alive(run_dir):
        return RunFault(family="interrupted", code="RUNNING", message="The run is still going on.")
    if state.end is not None and state.end.code:
        return RunFault(family="environment", code=state.end.code, message=state.end.message, hint=hint)
    message = f"The run was killed: {state.progress}."
    return RunFault(family="interrupted", code="KILLED", message=message, hint=hint)


def load_edits(run_dir: Path, candidate: str) -> tuple[Edit, ...]:
    """Return the edits of one candidate of a stored run.

    Raises:
        UsageError: `NO_SUCH_CANDIDATE`: the run had none of that id, or it could not be applied.
    """
    stored: Mapping[str, Any] = _read(run_dir / "edits.json")
    if candidate not in stored:
        raise UsageError(
            "NO_SUCH_CANDIDATE",
            f"Run {run_dir.name} has no applicable candidate {candidate!r}.",
            f"It has: {', '.join(sorted(stored)) or 'none'}.",
        )
    edits: tuple[Edit, ...] = from_plain(tuple[Edit, ...], stored[candidate])
    return edits


def list_runs(home: Path) -> list[dict[str, Any]]:
    """Return the documents of a repository's runs, the latest first; unreadable ones are left out.

    Args:
        home: folder of the repository in the cache.
    """
    documents = []
    for run_dir in _run_dirs(home):
        with suppress(CodeflashParallelError):
            documents.append(load_document(run_dir))
    return documents


def find_run(home: Path, name: str, *, with_result: bool) -> Path:
    """Return the folder of a run by its id, the beginning of its id, or ``last``.

    Args:
        home: folder of the repository in the cache.
        with_result: ``last`` is the last one that has a result; else the last one that was begun.

    Raises:
        UsageError: `NO_SUCH_RUN` or `AMBIGUOUS_RUN`.
    """
    dirs = _run_dirs(home)
    if name == LAST:
        found = [path for path in dirs if not with_result or (path / _RESULT).exists()][:1]
    else:
        found = [path for path in dirs if path.name == name]
        found = found or [path for path in dirs if name and path.name.startswith(name)]
    if not found:
        raise UsageError("NO_SUCH_RUN", f"There is no run {name!r} of this repository.", "See `list`.")
    if len(found) > 1:
        names = ", ".join(path.name for path in found[:5])
        raise UsageError("AMBIGUOUS_RUN", f"{name!r} may be {names}.", "Give more of the id.")
    return found[0]


def _run_dirs(home: Path) -> list[Path]:
    begun = {path.parent for name in (REQUEST, _RESULT) for path in home.glob(f"runs/*/{name}")}
    return sorted(begun, key=lambda path: path.stat().st_mtime_ns, reverse=True)


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EnvironmentFault("BAD_RUN", f"{path} cannot be read: {error}.", "See `list`.") from error


def _file_name(candidate: str) -> str:
    """Make a candidate's id safe as a file name, and different ids different names."""
    safe = "".join(c if c.isalnum() or c in "-_." else f"%{ord(c):x}" for c in candidate)
    return safe[:150].lstrip(".") or "candidate"


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
