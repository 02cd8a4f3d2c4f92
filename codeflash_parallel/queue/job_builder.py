"""Job requests: candidates, tree and settings, with a key that identifies them. Light."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from codeflash_parallel import __version__
from codeflash_parallel.config.settings import FREE, Settings, settings_document
from codeflash_parallel.config.settings_reader import queue_folder, run_of, submitter_of
from codeflash_parallel.process.files import wait_for_lock
from codeflash_parallel.queue.jobs import Budget, JobKind, JobRequest, Priority
from codeflash_parallel.queue.queue_errors import UnknownKind
from codeflash_parallel.result.candidate_model import (
    GitRef,
    PatchText,
    Submission,
    digest_of,
)
from codeflash_parallel.result.codec import from_plain, to_plain
from codeflash_parallel.result.errors import UsageError
from codeflash_parallel.run.run_targets import must_have_named
from codeflash_parallel.run.setup.project_interpreter import choose_interpreter, environment_stamp
from codeflash_parallel.workspace.cache_layout import CacheHome, remove_tree
from codeflash_parallel.workspace.git.git_client import Repository, find_repository
from codeflash_parallel.workspace.snapshot.mirror import take_durable_snapshot
from codeflash_parallel.workspace.snapshot.snapshot import Snapshot, SnapshotRequest, no_work_tree, resolve


class JobPayload(NamedTuple):
    """Payload of a job.

    Attributes:
        repository: folder in the user's repository that the job is for, absolute.
        settings: as `settings_document` writes them.
        command: of the kind `command`: program and arguments.
        cwd: where commands that answer requests for repairs are run.
        stored: snapshot that was taken at submission.
    """

    repository: str
    candidates: tuple[Submission, ...]
    settings: Mapping[str, Any]
    stored: StoredSnapshot
    command: tuple[str, ...] = ()
    cwd: str = ""


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
    refuses_inapplicable: bool = False,
) -> JobRequest:
    """Return a job for `EvalQueueClient.submit`, and store the snapshot that it is for in the queue's folder.

    Args:
        project: a path inside the user's repository, which is evaluated as it is now.
        settings: of the evaluation; they name the queue, and the daemon decides on other folders and slots.
        submitter: name for fairness; empty: `CODEFLASH_PARALLEL_SUBMITTER`, else the user.
        run: run whose jobs share one share; empty: `CODEFLASH_PARALLEL_RUN_OF`, else none.
        priority: urgency among the submitter's own jobs.
        start_after_s: seconds for which the job must not start.
        budget: limits of the run.
        command: of the kind `command`: a program and its arguments, run in a slot that holds the candidate.
        refuses_inapplicable: refuse a job of which no candidate applies, as far as that is known at once.

    Raises:
        UnknownKind: there is no such kind.
        UsageError: not a repository, no such function, `DOES_NOT_APPLY`, or arguments that contradict.
        EnvironmentFault: the repository cannot be read, or the queue's folder cannot be written.

    .. versionadded:: 0.1.0
    """
    wanted = _known(kind)
    _must_make_sense(wanted, submissions, command)
    repository = find_repository(Path(project))
    where = repository.root / repository.project
    pinned = tuple(_pinned(repository, submission) for submission in submissions)
    if refuses_inapplicable:
        _refuse_inapplicable(repository, settings, submissions, pinned)
    if repository.is_bare and not settings.base:
        raise no_work_tree(repository)
    if settings.functions:
        must_have_named(repository, settings)
    interpreter = choose_interpreter(settings.python, where, repository.root)
    folder = queue_folder(settings)
    stored = take_snapshot(folder, repository, SnapshotRequest.of(settings))
    task = JobPayload(
        repository=str(where),
        candidates=pinned,
        settings=settings_document(settings),
        stored=stored,
        command=tuple(command),
        cwd=str(Path(project).resolve()),
    )
    key = _key(wanted, task, environment_stamp(interpreter))
    if settings.encoders:
        task = _with_copied_encoders(task, settings.encoders, interpreter, folder)
    return JobRequest(
        kind=wanted,
        key=key,
        payload=json.dumps(to_plain(task)),
        submitter=submitter_of(submitter, os.environ),
        run=run_of(run, os.environ),
        priority=priority,
        start_after_s=start_after_s,
        budget=budget or Budget(),
        pass_env=settings.pass_env,
        snapshot=stored.place,
    )


def _with_copied_encoders(
    task: JobPayload, encoders: Sequence[str], interpreter: Path, folder: Path
) -> JobPayload:
    """Return a payload that names copies of the user's encoders: they may be files of the tree."""
    from codeflash_parallel.run.setup.project_interpreter import copied_encoders

    copies = mirror_of(folder, task.stored.place).parent / "encoders"
    found = copied_encoders(encoders, Path(task.repository), interpreter, copies)
    frozen = [f"{path}::{name}" for path, name in found]
    return task._replace(settings={**task.settings, "encoders": frozen})


def task_of(payload: str) -> JobPayload:
    """Return the payload of JSON text.

    Raises:
        UsageError: `BAD_PAYLOAD`.
    """
    try:
        task: JobPayload = from_plain(JobPayload, json.loads(payload))
    except (ValueError, RecursionError) as error:
        raise UsageError("BAD_PAYLOAD", f"The job's payload cannot be read: {error}.") from error
    return task


def _known(kind: str) -> JobKind:
    try:
        return JobKind(kind)
    except ValueError:
        raise UnknownKind(kind=kind) from None


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
    """Return a candidate with its ref resolved: the ref may name another commit later."""
    match submission.content:
        case GitRef(ref=ref) if commit := resolve(repository, ref):
            return replace(submission, content=GitRef(ref=commit))
        case _:
            return submission


def _refuse_inapplicable(
    repository: Repository,
    settings: Settings,
    submissions: Sequence[Submission],
    pinned: Sequence[Submission],
) -> None:
    """Refuse candidates of which none applies; the first that may apply ends the search.

    Args:
        pinned: the submissions, with the commit of every ref that names one.

    Raises:
        UsageError: `DOES_NOT_APPLY`.
    """
    found = []
    for submission, pin in zip(submissions, pinned, strict=True):
        why = _why_inapplicable(repository, settings, submission, is_pinned=pin is not submission)
        if not why:
            return
        found.append(f"Candidate {submission.id}: {why}")
    rest = " The other candidates do not apply either." if len(found) > 1 else ""
    raise UsageError("DOES_NOT_APPLY", found[0] + rest, "Nothing was submitted.")


def _why_inapplicable(
    repository: Repository, settings: Settings, submission: Submission, *, is_pinned: bool
) -> str:
    from codeflash_parallel.workspace.git.patch import why_no_patch, why_not_applicable

    match submission.content:
        case GitRef(ref=ref) if not is_pinned:
            return f"{ref!r} names no commit of the repository."
        case PatchText(patch=text):
            patch = text.encode("utf-8", "surrogateescape")
            is_the_disk = not (settings.base or settings.extra_tests or repository.is_bare)
            return why_no_patch(patch) or (why_not_applicable(repository, patch) if is_the_disk else "")
        case _:
            return ""


def _key(kind: JobKind, task: JobPayload, environment: str) -> str:
    settings = {name: value for name, value in task.settings.items() if name not in FREE}
    cwd = task.cwd if _has_provider(settings) else ""
    said = {**to_plain(task), "settings": settings, "stored": task.stored.snapshot.commit, "cwd": cwd}
    parts = [kind.value, __version__, environment, said]
    return digest_of(json.dumps(parts, sort_keys=True).encode("ascii"))


def _has_provider(settings: Mapping[str, Any]) -> bool:
    return bool(settings.get("repair_command") or settings.get("refine_command"))


_DAY_S = 86_400


class StoredSnapshot(NamedTuple):
    """A snapshot in the queue's folder.

    Attributes:
        place: folder of its mirror, relative to the folder of all snapshots: `<day>/<repository>`.
    """

    place: str
    snapshot: Snapshot


def take_snapshot(folder: Path, repository: Repository, request: SnapshotRequest) -> StoredSnapshot:
    """Take a snapshot into the queue of a folder; it is on the disk when this returns.

    Raises:
        UsageError, EnvironmentFault: as `workspace.snapshot.mirror.Mirror.snapshot`.
    """
    day = _day(time.time())
    snapshot = take_durable_snapshot(folder / "snapshots" / day, repository, request)
    return StoredSnapshot(place=f"{day}/{repository.key}", snapshot=snapshot)


def mirror_of(folder: Path, place: str) -> Path:
    """Return the git directory of the mirror at a place."""
    return CacheHome(path=folder / "snapshots" / place).mirror


def remove_unneeded(folder: Path, needed: Collection[str]) -> None:
    """Remove the mirrors that no job needs; those of today and yesterday may be of a submission in progress.

    Args:
        needed: places of the snapshots of jobs that have not ended.
    """
    yesterday = _day(time.time() - _DAY_S)
    for day in sorted((folder / "snapshots").glob("*")):
        if day.name >= yesterday:
            continue
        for path in sorted(day.glob("*")):
            if f"{day.name}/{path.name}" in needed:
                continue
            lock = wait_for_lock(CacheHome(path=path).use_lock, 0.0)
            if lock is not None:
                with lock:
                    remove_tree(path)
        if not any(day.iterdir()):
            day.rmdir()


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))
