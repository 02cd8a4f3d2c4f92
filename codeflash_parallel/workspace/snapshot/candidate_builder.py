"""Turn what was handed in into a candidate: edits of the snapshot that may be staged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import anyio.to_thread

from codeflash_parallel.candidates.function_replacement import SpliceError, splice
from codeflash_parallel.candidates.functions import Target, functions_of
from codeflash_parallel.candidates.path_policy import collisions, refuse_form, refuse_new, refuse_path
from codeflash_parallel.candidates.source_text import SourceText, compiles, syntax_fault
from codeflash_parallel.result.candidate.candidate_model import (
    Candidate,
    Content,
    FileTexts,
    GitRef,
    PatchText,
    Replacement,
    Submission,
    Unappliable,
)
from codeflash_parallel.result.candidate.content_json import encoding_fault
from codeflash_parallel.result.errors import UsageError
from codeflash_parallel.result.outcome_codes import Code
from codeflash_parallel.workspace.cache_layout import cache_faults, is_trouble_of_the_disk
from codeflash_parallel.workspace.git.git_client import GitFailed, user_git
from codeflash_parallel.workspace.git.patch_forms import PatchRefused
from codeflash_parallel.workspace.snapshot.draft_tree import (
    DraftChange,
    DraftTree,
    draft_of_files,
    draft_of_patch,
)
from codeflash_parallel.workspace.snapshot.mirror import Mirror
from codeflash_parallel.workspace.snapshot.snapshot import Snapshot
from codeflash_parallel.workspace.snapshot.snapshot_request import resolve

_REGULAR = frozenset({"100644", "100755", "000000"})


class _Refused(Exception):  # noqa: N818 - becomes a value at once
    def __init__(self, code: Code, reason: str) -> None:
        super().__init__(reason)
        self.value = Unappliable(code=code.value, reason=reason)


async def materialise(
    mirror: Mirror,
    snapshot: Snapshot,
    submission: Submission,
    targets: Sequence[Target],
    *,
    interpreter: Path | None = None,
) -> Candidate | Unappliable:
    """Make a candidate of a submission, or say why it cannot be one.

    Args:
        targets: of the run; they say what a replacement replaces, and their files may be touched.
        interpreter: the project's Python; asked about syntax that ours does not know.

    Raises:
        EnvironmentFault: the mirror or its disk.
    """
    try:
        _must_encode(submission.content)
        draft = await _draft(mirror, snapshot, submission, targets)
        _pass_the_gate(mirror, snapshot, draft, targets)
        await _must_parse(mirror, snapshot, draft, interpreter)
    except _Refused as refused:
        return refused.value
    return Candidate(
        id=submission.id,
        origin=submission.kind,
        edits=tuple(change.edit for change in draft.changes),
        diff=draft.diff,
        parent=submission.parent,
        explanation=submission.explanation,
    )


def _must_encode(content: Content) -> None:
    """Refuse what no file can hold; whole files are looked at one by one, in their own encodings."""
    match content:
        case PatchText(patch=text):
            code, what = Code.DOES_NOT_APPLY, "The patch"
        case GitRef(ref=text):
            code, what = Code.DOES_NOT_APPLY, "The ref"
        case Replacement(code=text):
            code, what = Code.DOES_NOT_PARSE, "The replacement"
        case FileTexts():
            return
    fault = encoding_fault(text)
    if fault:
        raise _Refused(code, f"{what} cannot be written: {fault}.")


async def _draft(
    mirror: Mirror, snapshot: Snapshot, submission: Submission, targets: Sequence[Target]
) -> DraftTree:
    match submission.content:
        case PatchText(patch=patch):
            data = patch.encode("utf-8", "surrogateescape")
            make = partial(draft_of_patch, mirror, snapshot, data)
        case GitRef(ref=ref):
            data = await anyio.to_thread.run_sync(_patch_of_ref, mirror, snapshot, ref)
            nothing: dict[str, bytes | None] = {}
            make = (
                partial(draft_of_patch, mirror, snapshot, data)
                if data
                else partial(draft_of_files, mirror, snapshot, nothing)
            )
        case FileTexts() as texts:
            make = partial(draft_of_files, mirror, snapshot, _files(mirror, snapshot, texts))
        case Replacement() as replacement:
            make = partial(
                draft_of_files, mirror, snapshot, _replaced(mirror, snapshot, replacement, targets)
            )
    return await anyio.to_thread.run_sync(_make, mirror, snapshot, make)


def _make(mirror: Mirror, snapshot: Snapshot, make: Callable[[], DraftTree]) -> DraftTree:
    try:
        with cache_faults(mirror.home.path):
            return _healing(mirror, snapshot, make)
    except PatchRefused as error:
        code = Code.PATH_NOT_ALLOWED if "invalid path" in str(error) else Code.DOES_NOT_APPLY
        raise _Refused(code, f"It does not apply: {error}.") from error


def _healing(mirror: Mirror, snapshot: Snapshot, make: Callable[[], DraftTree]) -> DraftTree:
    """Make a draft; if the mirror lost something, put that back and try again."""
    try:
        return make()
    except GitFailed as error:
        if is_trouble_of_the_disk(error):
            raise
        mirror.heal(snapshot)
        return make()


def _patch_of_ref(mirror: Mirror, snapshot: Snapshot, ref: str) -> bytes:
    """Return what a ref of the user's repository changes since it left the snapshot's base."""
    repository = mirror.repository
    commit = resolve(repository, ref)
    if not commit:
        raise _Refused(Code.DOES_NOT_APPLY, f"{ref!r} names no commit of the repository.")
    # The base may have been amended and collected in the meantime; then the present HEAD stands for it.
    base = resolve(repository, snapshot.base or "HEAD") or resolve(repository, "HEAD")
    git = user_git(repository.root)
    try:
        fork = git.text("merge-base", base, commit)
        options = ("--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules")
        prefixes = ("--src-prefix=a/", "--dst-prefix=b/")
        return git.run("diff-tree", "-r", "-p", "--binary", "--full-index", *options, *prefixes, fork, commit)
    except GitFailed as error:
        words = error.first_line if error.stderr else "it has no common ancestor with the base"
        reason = f"What {ref!r} changes cannot be read: {words}."
        raise _Refused(Code.DOES_NOT_APPLY, reason) from error


def _files(mirror: Mirror, snapshot: Snapshot, texts: FileTexts) -> dict[str, bytes | None]:
    """Return the new bytes of files, in the form that each of them has now."""
    files: dict[str, bytes | None] = {}
    for file in texts.files:
        reason = refuse_form(file.path)
        if reason:
            raise _Refused(Code.PATH_NOT_ALLOWED, f"{file.path!r}: {reason}.")
        if file.path in files:
            raise _Refused(Code.DOES_NOT_APPLY, f"{file.path} is given twice.")
        old = mirror.read(snapshot, file.path)
        files[file.path] = None if file.text is None else _in_form(file.path, file.text, old)
    return files


def _in_form(path: str, text: str, old: bytes | None) -> bytes:
    """Encode a new text as the old one is; a new file, or one that is no Python, is UTF-8 as it stands."""
    try:
        if old is None or not path.endswith(".py") or "\r" in text:
            return text.encode("utf-8", "surrogateescape")
        return _source(path, old).write(text)
    except UnicodeEncodeError as error:
        reason = f"{path} cannot hold {text[error.start : error.end]!r} in its encoding, {error.encoding}."
        raise _Refused(Code.DOES_NOT_APPLY, reason) from error


def _source(path: str, data: bytes) -> SourceText:
    try:
        return SourceText.read(data)
    except (SyntaxError, UnicodeDecodeError) as error:
        raise _Refused(
            Code.DOES_NOT_APPLY, f"{path} of the snapshot cannot be read as Python: {error}."
        ) from error


def _replaced(
    mirror: Mirror, snapshot: Snapshot, replacement: Replacement, targets: Sequence[Target]
) -> dict[str, bytes | None]:
    """Return the files with the replacement spliced in."""
    files: dict[str, bytes | None] = {}
    for target in _targets_of(replacement, targets):
        old = files.get(target.path) or mirror.read(snapshot, target.path)
        if old is None:
            raise _Refused(Code.DOES_NOT_APPLY, f"There is no file {target.path} in the snapshot.")
        try:
            text = splice(_source(target.path, old).text, replacement.code, target.qualname)
        except SpliceError as error:
            raise _Refused(Code(error.code), error.reason) from error
        files[target.path] = _in_form(target.path, text, old)
    return files


def _targets_of(replacement: Replacement, targets: Sequence[Target]) -> tuple[Target, ...]:
    """Return what a replacement replaces: what it names, else the run's targets that it defines."""
    if replacement.function:
        try:
            return (Target.parse(replacement.function),)
        except UsageError as error:
            reason = f"{replacement.function!r} is not of the form path/in/repo.py::Class.method."
            raise _Refused(Code.DOES_NOT_APPLY, reason) from error
    _parse_or_refuse(replacement.code)
    defined = set(functions_of(replacement.code))
    exact = tuple(target for target in targets if target.qualname in defined)
    loose = tuple(target for target in targets if defined.intersection(_endings(target.qualname)))
    if exact or len(loose) == 1:
        return exact or loose
    names = ", ".join(str(target) for target in loose or targets) or "no target"
    what = "may mean any of" if loose else "defines none of"
    raise _Refused(Code.DOES_NOT_APPLY, f"The replacement {what}: {names}.")


def _parse_or_refuse(code: str) -> None:
    fault = syntax_fault(code.encode("utf-8", "surrogateescape"))
    if fault:
        raise _Refused(Code.DOES_NOT_PARSE, f"The replacement does not parse: {fault}.")


def _endings(qualname: str) -> set[str]:
    parts = qualname.split(".")
    return {".".join(parts[start:]) for start in range(len(parts))}


def _pass_the_gate(mirror: Mirror, snapshot: Snapshot, draft: DraftTree, targets: Sequence[Target]) -> None:
    """Refuse paths that a candidate may not touch."""
    allowed = {target.path for target in targets}
    present = set(mirror.paths(snapshot))
    new = {change.edit.path for change in draft.changes if change.edit.old_digest is None}
    gone = {change.edit.path for change in draft.changes if change.edit.new is None}
    for change in draft.changes:
        path = change.edit.path
        reason = refuse_form(path) if path in allowed else refuse_path(path, protected=snapshot.protected)
        reason = reason or _refuse_mode(change) or (refuse_new(path, present | new) if path in new else "")
        if reason:
            raise _Refused(Code.PATH_NOT_ALLOWED, f"A candidate may not touch {path!r}: {reason}.")
    colliding = collisions(new, present - gone)
    if colliding:
        reason = f"{colliding[0]!r} differs from another path only in case or spelling."
        raise _Refused(Code.PATH_NOT_ALLOWED, reason)


def _refuse_mode(change: DraftChange) -> str:
    if change.old_mode in _REGULAR and change.new_mode in _REGULAR:
        return ""
    return "it is a symbolic link or a submodule"


async def _must_parse(mirror: Mirror, snapshot: Snapshot, draft: DraftTree, interpreter: Path | None) -> None:
    """Refuse Python files that are none, unless the snapshot's were none either (templates)."""
    for change in draft.changes:
        path, new = change.edit.path, change.edit.new
        if new is None or not path.endswith(".py"):
            continue
        old = mirror.read(snapshot, path)
        fault = syntax_fault(new, old or b"")
        if fault and interpreter is not None and await anyio.to_thread.run_sync(compiles, interpreter, new):
            continue
        if fault and not _was_broken(old):
            raise _Refused(Code.DOES_NOT_PARSE, f"{path} does not parse: {fault}.")


def _was_broken(old: bytes | None) -> bool:
    return old is not None and bool(syntax_fault(old))
