"""Decide where a check may begin: at which fork point of a warm server, or in a new process. Pure.

`collected` stands after collection with the baseline's code, `imported` before the first import of a target's
file; without targets, before the first import of anything that lives in the repository. What a point has
already seen must not depend on what the candidate changes; so the choice follows from the edits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath

from codeflash_parallel.candidates.code_changes import beyond_bodies
from codeflash_parallel.candidates.functions import Target
from codeflash_parallel.result.candidate_model import Edit

#: From here on a check is nothing but its tests: a server would hold memory and save next to nothing.
LONG_SUITE_S = 20.0

#: Run by the interpreter while it starts, before any import could be waited for.
_RUN_AT_START = frozenset({"sitecustomize.py", "usercustomize.py"})


class ForkPoint(StrEnum):
    """A place where a check begins."""

    #: After collection; the fork gives the functions of the targets' files the candidate's code.
    COLLECTED = "collected"
    #: Before the first import of a target's file; without targets, of any file of the repository.
    IMPORTED = "imported"
    #: In a new process.
    NEW_PROCESS = "new-process"

    def downwards(self) -> tuple[ForkPoint, ...]:
        """Return the servers' points to try, this one first: what is collected can be imported, too."""
        return _SERVED[_SERVED.index(self) :] if self in _SERVED else ()


_SERVED = (ForkPoint.COLLECTED, ForkPoint.IMPORTED)


@dataclass(frozen=True, kw_only=True, slots=True)
class ForkChoice:
    """A choice.

    Attributes:
        why: why it is not a further point, one clause; empty at `collected`.
    """

    point: ForkPoint
    why: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ForkContext:
    """The snapshot, as far as the choice of a fork point needs it.

    Attributes:
        targets: the functions under optimization; their files are the gate of `imported`.
        sources: the snapshot's text of these files.
        packages: folders of the snapshot that hold an ``__init__.py``, as far as edits add files there.
    """

    targets: Sequence[Target]
    sources: Mapping[str, bytes]
    packages: frozenset[str] = frozenset()


def furthest(edits: Sequence[Edit], ground: ForkContext) -> ForkChoice:
    """Return the furthest point whose past cannot depend on what these edits change."""
    gate = {target.path for target in ground.targets}
    outside = [edit for edit in edits if edit.path not in gate or not _modifies(edit)]
    return _outside_the_gate(outside, ground) if outside else _inside_the_gate(edits, ground)


def choose(
    by_edits: ForkChoice,
    *,
    suite_s: float = 0.0,
    workers: int = 0,
    watched: bool = False,
    watched_at_collected: bool = False,
    new_process: str = "",
) -> ForkChoice:
    """Return where one run begins.

    Args:
        by_edits: the furthest point that the candidate's edits allow.
        suite_s: time of all setups, calls and teardowns of the tests to be run.
        workers: xdist workers; 0 runs in one process.
        watched: calls are recorded during the tests, for which targets are wrapped while they are imported.
        watched_at_collected: the servers at `collected` have done so; their imports cannot be undone.
        new_process: why there are only new processes.
    """
    why = new_process
    if workers:
        why = f"the tests are spread over {workers} processes"
    elif suite_s > LONG_SUITE_S:
        why = f"the tests take {suite_s:.0f} s: starting is nothing beside it"
    if why:
        return ForkChoice(point=ForkPoint.NEW_PROCESS, why=why)
    if watched != watched_at_collected and by_edits.point is ForkPoint.COLLECTED:
        recorded = "recorded" if watched else "not recorded"
        return ForkChoice(point=ForkPoint.IMPORTED, why=f"calls inside the tests are {recorded}")
    return by_edits


def weakest(*points: ForkPoint) -> ForkPoint:
    """Return the earliest of some points: what a check that began at all of them is called."""
    order = list(ForkPoint)
    return max(points, key=order.index)


def _modifies(edit: Edit) -> bool:
    return edit.old_digest is not None and edit.new is not None


def _outside_the_gate(edits: Sequence[Edit], ground: ForkContext) -> ForkChoice:
    why = next(filter(None, (_found_early(edit, ground.packages) for edit in edits)), "")
    other = f"it changes {edits[0].path}, which is not a target's file"
    if why or ground.targets:
        return ForkChoice(point=ForkPoint.NEW_PROCESS, why=why or other)
    return ForkChoice(point=ForkPoint.IMPORTED, why=other)


def _found_early(edit: Edit, packages: frozenset[str]) -> str:
    """Return why something may have read an edit's file before anything of the repository is imported."""
    path = PurePosixPath(edit.path)
    if edit.new is None:
        return f"it removes {edit.path}"
    if path.suffix != ".py" or path.name in _RUN_AT_START:
        return f"it changes {edit.path}, which may be read before anything is imported"
    # pytest looks for conftest files before it imports the first of them.
    if edit.old_digest is None and (path.name == "conftest.py" or str(path.parent) not in packages):
        return f"it adds {edit.path}, which may be found before anything of the repository is imported"
    return ""


def _inside_the_gate(edits: Sequence[Edit], ground: ForkContext) -> ForkChoice:
    why = next(filter(None, (_more_than_bodies(edit, ground) for edit in edits)), "")
    return ForkChoice(point=ForkPoint.IMPORTED if why else ForkPoint.COLLECTED, why=why)


def _more_than_bodies(edit: Edit, ground: ForkContext) -> str:
    """Return what an edit of a target's file changes besides bodies of targets; empty: nothing."""
    names = tuple(target.qualname for target in ground.targets if target.path == edit.path)
    old, new = ground.sources.get(edit.path), edit.new
    if old is None or new is None:
        return f"the snapshot's {edit.path} is not at hand"
    try:
        return beyond_bodies(old.decode("utf-8"), new.decode("utf-8"), names)
    except UnicodeDecodeError:
        return f"{edit.path} is not UTF-8"
