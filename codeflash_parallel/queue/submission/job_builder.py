"""Make a job of candidates: what is to be done, for which tree, under a key that names all of it. Light."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from codeflash_parallel import __version__
from codeflash_parallel.config.settings import Settings
from codeflash_parallel.config.settings_json import FREE, settings_document
from codeflash_parallel.config.submitter_identity import run_of, submitter_of
from codeflash_parallel.queue.errors import UnknownKind
from codeflash_parallel.queue.jobs import Budget, JobKind, JobRequest, Priority
from codeflash_parallel.queue.submission.applicability import InapplicableJob, must_have_hope
from codeflash_parallel.result.candidate.candidate_model import (
    CandidateId,
    CandidateOrigin,
    GitRef,
    Submission,
    digest_of,
)
from codeflash_parallel.result.candidate.content_json import content_document, content_of
from codeflash_parallel.result.errors import UsageError
from codeflash_parallel.run.intake.target_names import must_have_named
from codeflash_parallel.run.setup.project_interpreter import choose_interpreter, environment_stamp
from codeflash_parallel.workspace.git.repository import Repository, find_repository
from codeflash_parallel.workspace.snapshot.snapshot_digest import stamp_of
from codeflash_parallel.workspace.snapshot.snapshot_request import SnapshotRequest, resolve


class JobPayload(NamedTuple):
    """What a worker reads in a job's payload.

    Attributes:
        repository: folder in the user's repository that the job is for, absolute.
        settings: as `settings_document` writes them.
        command: of the kind `command`: program and arguments.
        cwd: where commands that answer requests for repairs are run.
        tree: what `stamp` said of the tree when the job was submitted.
    """

    repository: str
    candidates: tuple[Submission, ...]
    settings: Mapping[str, Any]
    command: tuple[str, ...] = ()
    cwd: str = ""
    tree: str = ""


def job_request(  # noqa: PLR0913 - what, for which tree, for whom and when
    kind: JobKind | str,
    project: Path | str,
    submissions: Sequence[Submission],
    settings: Settings,
    *,
    submitter: str = "",
    run: str = "",
    priority: Priority = Priority.NORMAL,
    command: Sequence[str] = (),
    start_after_s: float = 0.0,
    budget: Budget | None = None,
    hopeless: InapplicableJob = InapplicableJob.TAKEN,
) -> JobRequest:
    """Return a job for `EvalQueueClient.submit`.

    Args:
        kind: what is done with the candidates.
        project: a path inside the user's repository; the tree as it is now is what they are judged on.
        settings: of the evaluation; where things are kept and how many candidates are evaluated at once is
            the daemon's business.
        submitter, run: see `config.submitter_identity`: empty is what the variables say, else the user and no
            run.
        priority, start_after_s, budget: see `queue.jobs.JobRequest`.
        command: of the kind `command`: a program and its arguments, run in a slot that holds the candidate.
        hopeless: what becomes of a job of which no candidate applies.

    Raises:
        UnknownKind: there is no such kind.
        UsageError: not a repository, no such function, `DOES_NOT_APPLY`, or what is asked for makes no sense.
        EnvironmentFault: the repository cannot be read.

    .. versionadded:: 0.1.0
    """
    wanted = _known(kind)
    _must_make_sense(wanted, submissions, command)
    repository = find_repository(Path(project))
    where = repository.root / repository.project
    pinned = tuple(_pinned(repository, submission) for submission in submissions)
    if hopeless is InapplicableJob.REFUSED:
        must_have_hope(repository, settings, submissions, pinned)
    task = JobPayload(
        repository=str(where),
        candidates=pinned,
        settings=settings_document(settings),
        command=tuple(command),
        cwd=str(Path(project).resolve()),
        tree=stamp(repository, settings),
    )
    if settings.functions:
        must_have_named(repository, settings)
    interpreter = choose_interpreter(settings.python, where, repository.root)
    return JobRequest(
        kind=wanted,
        key=_key(wanted, task, environment_stamp(interpreter)),
        payload=json.dumps(payload_of(task)),
        submitter=submitter_of(submitter, os.environ),
        run=run_of(run, os.environ),
        priority=priority,
        start_after_s=start_after_s,
        budget=budget or Budget(),
        pass_env=settings.pass_env,
    )


def stamp(repository: Repository, settings: Settings) -> str:
    """Return a digest of the tree that a snapshot would hold now (`workspace.snapshot.snapshot_digest`)."""
    request = SnapshotRequest(
        base=settings.base, include_ignored=settings.include_ignored, extra_tests=settings.extra_tests
    )
    return stamp_of(repository, request)


def payload_of(task: JobPayload) -> dict[str, Any]:
    """Return a task as JSON values; candidates are written as in manifests."""
    return {**task._asdict(), "candidates": [_written(submission) for submission in task.candidates]}


def task_of(payload: str) -> JobPayload:
    """Return what `payload_of` wrote.

    Raises:
        UsageError: `BAD_PAYLOAD`.
    """
    try:
        data = json.loads(payload)
        return JobPayload(
            repository=str(data["repository"]),
            candidates=tuple(_read(candidate) for candidate in data["candidates"]),
            settings=dict(data["settings"]),
            command=tuple(map(str, data.get("command", ()))),
            cwd=str(data.get("cwd") or data["repository"]),
            tree=str(data.get("tree", "")),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UsageError("BAD_PAYLOAD", f"The job's payload cannot be read: {error!r}.") from error


def _known(kind: str) -> JobKind:
    try:
        return JobKind(kind)
    except ValueError:
        raise UnknownKind(kind) from None


def _must_make_sense(kind: JobKind, submissions: Sequence[Submission], command: Sequence[str]) -> None:
    if not submissions:
        raise UsageError("NO_CANDIDATES", "A job needs a candidate.")
    if (kind is JobKind.COMMAND) != bool(command):
        raise UsageError("BAD_JOB", "Jobs of the kind command have a command, and no others have.")
    if command and len(submissions) > 1:
        raise UsageError(
            "BAD_JOB", f"A command grades one candidate, not {len(submissions)}.", "Submit a job for each."
        )


def _pinned(repository: Repository, submission: Submission) -> Submission:
    """Return a candidate that stays what it is: a ref may name something else when its turn has come."""
    match submission.content:
        case GitRef(ref=ref) if commit := resolve(repository, ref):
            return replace(submission, content=GitRef(ref=commit))
        case _:
            return submission


def _key(kind: JobKind, task: JobPayload, environment: str) -> str:
    settings = {name: value for name, value in task.settings.items() if name not in FREE}
    said = {**payload_of(task), "settings": settings, "cwd": task.cwd if _has_provider(settings) else ""}
    parts = [kind.value, __version__, environment, said]
    return digest_of(json.dumps(parts, sort_keys=True).encode("ascii"))


def _has_provider(settings: Mapping[str, Any]) -> bool:
    return bool(settings.get("repair_command") or settings.get("refine_command"))


def _written(submission: Submission) -> dict[str, Any]:
    content = submission.content
    own = {"parent": submission.parent, "origin": submission.origin, "explanation": submission.explanation}
    return {
        "id": submission.id,
        **{name: str(value) for name, value in own.items() if value},
        **({"ref": content.ref} if isinstance(content, GitRef) else content_document(content)),
    }


def _read(data: Mapping[str, Any]) -> Submission:
    return Submission(
        id=CandidateId(str(data["id"])),
        content=GitRef(ref=str(data["ref"])) if "ref" in data else content_of(data),
        origin=CandidateOrigin(data["origin"]) if "origin" in data else None,
        parent=CandidateId(data["parent"]) if "parent" in data else None,
        explanation=str(data.get("explanation", "")),
    )
