"""What happens in a run, as values; `journal_lines` says how they are written. Pure."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.race.race_record import written
from codeflash_parallel.repair.provider_protocol import Answer
from codeflash_parallel.result.candidate.candidate_model import (
    Candidate,
    Edit,
    Submission,
    Unappliable,
    digest_of,
)
from codeflash_parallel.result.line_profile import LineProfile

#: Version of the lines; a journal of a later one is refused, a change of meaning raises it.
SCHEMA = 1


class Look(StrEnum):
    """Which check of a candidate it was."""

    #: The first one, with the tests that can notice a change.
    SCREEN = "screen"
    #: The tests that screening left out.
    REST = "rest"
    #: The calls with inputs that were made for the whole field.
    FRESH = "fresh"
    #: In a clean process, after a race.
    CLEAN = "clean"


class Ending(StrEnum):
    """How a run ended."""

    #: Everybody was judged.
    FINISHED = "finished"
    #: Ctrl-C or SIGTERM.
    INTERRUPTED = "interrupted"
    #: The wall budget was spent.
    BUDGET = "budget"
    #: The machinery failed for some candidates: they were not judged.
    UNJUDGED = "unjudged"
    #: The run could not go on: a full disk, a red baseline.
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Provider:
    """Who answers requests.

    Attributes:
        argv: of a command; empty for a Python callable, which cannot be found again.
        cwd: of the command.
    """

    argv: tuple[str, ...] = ()
    cwd: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Begun:
    """The first event: what was asked for.

    Attributes:
        schema: of all lines.
        version: of the program.
        repository: root of the user's repository.
        project: folder of the project in it.
        races: whether equivalent candidates are raced.
        refines: whether leaders of races are profiled and refined.
        seed: of everything random.
        expected: how many candidates were handed in at once; -1: they came one by one.
        settings: by name, as `settings_document` wrote them.
    """

    schema: int
    run_id: str
    version: str
    repository: str
    project: str
    races: bool
    seed: int
    expected: int
    settings: Mapping[str, Any]
    repairer: Provider | None = None
    refiner: Provider | None = None
    refines: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Resumed:
    """Another process goes on with the run."""

    version: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Submitted:
    """A candidate was handed in, under the name that it has in this run."""

    submission: Submission


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceEnded:
    """No more candidates will be handed in."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshotted:
    """The user's tree was frozen; see `workspace.snapshot.snapshot.Snapshot`."""

    commit: str
    tree: str
    base: str
    ignored_left_out: tuple[str, ...]
    protected: tuple[str, ...]
    extra_tests: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Grounded:
    """The baseline is known.

    Attributes:
        key: names everything that it depends on: interpreter, packages, environment, our version.
    """

    key: str


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredEdit:
    """An edit; `new` is in base 64."""

    path: str
    old_digest: str | None
    new: str | None
    executable: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """A submission became edits, or cannot.

    Attributes:
        key: of the submission, see `key_of`.
        refused: code of why it cannot; empty when it can.
        duplicate_of: a candidate, or ``baseline``; empty when it is no duplicate.
    """

    key: str
    edits: tuple[StoredEdit, ...] = ()
    diff: str = ""
    refused: str = ""
    reason: str = ""
    duplicate_of: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Spending:
    """Where the time of a check went, by the names of `ledger.Spent`."""

    ns: Mapping[str, int]
    steps_ms: Mapping[str, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Checked:
    """A check came to its end, with a finding about the candidate.

    Attributes:
        key: of the submission.
        notes, kept_slot, reproduce: of the entry, after the check.
    """

    key: str
    look: Look
    outcome: CheckOutcome
    spent: Spending
    notes: tuple[str, ...] = ()
    kept_slot: str = ""
    reproduce: str = ""


class Request(StrEnum):
    """What a provider was asked for."""

    #: One rejected candidate.
    REPAIR = "repair"
    #: The fastest candidates, in one batch.
    REFINEMENT = "refinement"


@dataclass(frozen=True, kw_only=True, slots=True)
class Answered:
    """A provider has answered.

    Attributes:
        about: keys of the candidates that it was asked about, see `name_of`.
        answers: what it proposed; none: it has no idea.
    """

    request: Request
    about: tuple[str, ...]
    answers: tuple[Answer, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Profiled:
    """A line profile was made.

    Attributes:
        key: see `name_of`: of its name and the files that it was staged in.
    """

    key: str
    profile: LineProfile


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """The run came to an end, for now.

    Attributes:
        code: why, where it is not finished.
        message: the same for people.
    """

    ending: Ending
    code: str = ""
    message: str = ""


Happened = (
    Begun
    | Resumed
    | Submitted
    | SourceEnded
    | Snapshotted
    | Grounded
    | Prepared
    | Checked
    | Answered
    | Profiled
    | Ended
)


def key_of(submission: Submission) -> str:
    """Return the name under which findings about a submission are kept: its id and what it says."""
    return digest_of(json.dumps(written(Submission, submission), sort_keys=True).encode())[:24]


def prepared(key: str, made: Candidate | Unappliable, duplicate_of: str) -> Prepared:
    """Return the event of a submission that became edits, or cannot."""
    if isinstance(made, Unappliable):
        return Prepared(key=key, refused=made.code, reason=made.reason)
    edits = tuple(stored_edit(edit) for edit in made.edits)
    return Prepared(key=key, edits=edits, diff=made.diff, duplicate_of=duplicate_of)


def made_of(event: Prepared, submission: Submission) -> Candidate | Unappliable:
    """Return what `prepared` was given."""
    if event.refused:
        return Unappliable(code=event.refused, reason=event.reason)
    return Candidate(
        id=submission.id,
        origin=submission.kind,
        edits=tuple(edit_of(edit) for edit in event.edits),
        diff=event.diff,
        parent=submission.parent,
        explanation=submission.explanation,
    )


def stored_edit(edit: Edit) -> StoredEdit:
    """Return an edit as JSON can hold it."""
    new = None if edit.new is None else base64.b64encode(edit.new).decode("ascii")
    return StoredEdit(path=edit.path, old_digest=edit.old_digest, new=new, executable=edit.executable)


def edit_of(edit: StoredEdit) -> Edit:
    """Return what `stored_edit` was given."""
    new = None if edit.new is None else base64.b64decode(edit.new)
    return Edit(path=edit.path, old_digest=edit.old_digest, new=new, executable=edit.executable)
