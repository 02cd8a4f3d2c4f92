"""What a candidate's processes left where nothing of theirs belongs. Pure.

Tests write files: what the baseline's tests change is no candidate's fault, nor is a new file that nobody
imports. It is all undone in any case; here it is judged.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import PurePosixPath

from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.race.race_result import Disqualification
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code
from codeflash_parallel.workspace.slot.slot_residue import SlotResidue

#: New files that change what later processes do without being asked for.
_ACTIVE_SUFFIXES = frozenset({".py", ".pyc", ".pyi", ".so", ".pyd", ".pth", ".egg-link"})
_ACTIVE_NAMES = frozenset(
    {"pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg", "pytest.toml"}
)
#: How many paths one sentence names.
_NAMED = 3


def escaped(trace: SlotResidue, leftovers: Collection[str]) -> str:
    """Return what was changed that must not be, one sentence; empty: nothing.

    Args:
        trace: of the slot in which the candidate was checked.
        leftovers: paths that the baseline's own tests change.
    """
    if trace.mirror:
        return f"While it was checked, the mirror's own files were changed: {_named(trace.mirror)}."
    known = set(leftovers)
    changed = [path for path in trace.changed if path not in known]
    if changed:
        return f"Files of the snapshot were changed that it does not edit: {_named(changed)}."
    kinds = {(PurePosixPath(path).parent, PurePosixPath(path).suffix) for path in known}
    added = [path for path in trace.added if path not in known and _is_active(path, kinds)]
    return f"Files were added that later processes would obey: {_named(added)}." if added else ""


def _is_active(path: str, kinds: Collection[tuple[PurePosixPath, str]]) -> bool:
    """Say whether a file is obeyed, and of a kind that the baseline's tests do not make there."""
    place = PurePosixPath(path)
    active = place.suffix in _ACTIVE_SUFFIXES or place.name in _ACTIVE_NAMES or ".git" in place.parts
    return active and (place.parent, place.suffix) not in kinds


def _named(paths: Collection[str]) -> str:
    shown = ", ".join(sorted(paths)[:_NAMED])
    return shown + (f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else "")


def with_trace(outcome: CheckOutcome, trace: SlotResidue, leftovers: Collection[str]) -> CheckOutcome:
    """Reject a candidate that has changed what it must not; one that is rejected has a note of it."""
    why = escaped(trace, leftovers)
    if not why:
        return outcome
    if outcome.code is Code.OK:
        return replace(outcome, code=Code.ESCAPED, reason=why)
    return replace(outcome, notes=(*outcome.notes, why))


def escapes(traces: Mapping[str, SlotResidue], leftovers: Collection[str]) -> dict[str, Disqualification]:
    """Return who leaves a race for what was found in its slot.

    Whose the mirror's changes are is not known there: those who race in other slots run at the same time.

    Args:
        traces: by candidate.
        leftovers: paths that the baseline's tests change, and its arm in that race.
    """
    own = {name: SlotResidue(changed=trace.changed, added=trace.added) for name, trace in traces.items()}
    found = {name: escaped(trace, leftovers) for name, trace in own.items()}
    return {
        name: Disqualification(status=CandidateStatus.REJECTED, code=Code.ESCAPED, reason=why)
        for name, why in found.items()
        if why
    }
