"""Runs on disk: one folder a run, with the result's document, the edits of every candidate and the diffs."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from codeflash_parallel.model.candidate import Candidate, Edit
from codeflash_parallel.model.document import document
from codeflash_parallel.model.errors import EnvironmentFault, UsageError
from codeflash_parallel.model.result import RunResult
from codeflash_parallel.process.files import write_atomically

#: Names a user may give instead of a run's id.
LAST = "last"


def save_diff(run_dir: Path, candidate: Candidate) -> Path:
    """Write a candidate's diff and return where it lies."""
    path = run_dir / "diffs" / f"{_file_name(candidate.id)}.diff"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, candidate.diff.encode("utf-8", "surrogateescape"))
    return path


def save_run(run_dir: Path, result: RunResult, candidates: Iterable[Candidate]) -> None:
    """Write a run's document and its candidates' edits, each file whole or not at all."""
    edits = {c.id: [_edit_to_json(edit) for edit in c.edits] for c in candidates}
    write_atomically(run_dir / "edits.json", json.dumps(edits).encode())
    write_atomically(run_dir / "result.json", json.dumps(document(result), indent=1).encode())


def load_document(run_dir: Path) -> dict[str, Any]:
    """Return the document of a stored run.

    Raises:
        EnvironmentFault: `BAD_RUN`: it is not there or cannot be read.
    """
    loaded: dict[str, Any] = _read(run_dir / "result.json")
    return loaded


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
    return tuple(_edit_from_json(edit) for edit in stored[candidate])


def list_runs(cache: Path, repository: Path) -> list[dict[str, Any]]:
    """Return the documents of this repository's runs, the latest first; unreadable ones are left out."""
    documents = []
    for run_dir in _run_dirs(cache):
        try:
            loaded = load_document(run_dir)
        except EnvironmentFault:
            continue
        if loaded.get("repository") == str(repository):
            documents.append(loaded)
    return documents


def find_run(cache: Path, repository: Path, name: str) -> Path:
    """Return the folder of a run by its id, the beginning of its id, or ``last``.

    Raises:
        UsageError: `NO_SUCH_RUN` or `AMBIGUOUS_RUN`.
    """
    ids = [str(d["run_id"]) for d in list_runs(cache, repository)]
    found = (
        ids[:1] if name == LAST else [i for i in ids if i == name] or [i for i in ids if i.startswith(name)]
    )
    if not found or not name:
        raise UsageError("NO_SUCH_RUN", f"There is no run {name!r} of this repository.", "See `list`.")
    if len(found) > 1:
        raise UsageError("AMBIGUOUS_RUN", f"{name!r} may be {', '.join(found[:5])}.", "Give more of the id.")
    return next(d for d in _run_dirs(cache) if d.name == found[0])


def _run_dirs(cache: Path) -> list[Path]:
    return sorted(cache.glob("*/runs/*/"), key=lambda path: path.stat().st_mtime_ns, reverse=True)


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EnvironmentFault("BAD_RUN", f"{path} cannot be read: {error}.", "See `list`.") from error


def _file_name(candidate: str) -> str:
    """Make a candidate's id safe as a file name, and different ids different names."""
    safe = "".join(c if c.isalnum() or c in "-_." else f"%{ord(c):x}" for c in candidate)
    return safe[:150].lstrip(".") or "candidate"


def _edit_to_json(edit: Edit) -> dict[str, Any]:
    new = None if edit.new is None else base64.b64encode(edit.new).decode("ascii")
    return {"path": edit.path, "old_digest": edit.old_digest, "new": new, "executable": edit.executable}


def _edit_from_json(data: Mapping[str, Any]) -> Edit:
    new = None if data["new"] is None else base64.b64decode(data["new"])
    return Edit(path=data["path"], old_digest=data["old_digest"], new=new, executable=data["executable"])
