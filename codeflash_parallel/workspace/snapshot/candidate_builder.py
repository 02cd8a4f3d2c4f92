"""Turn what was handed in into a candidate: edits of the snapshot that may be staged."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import NamedTuple

import anyio.to_thread

from codeflash_parallel.candidates.function_replacement import SpliceError, splice
from codeflash_parallel.candidates.functions import Target, functions_of
from codeflash_parallel.candidates.model_answer import (
    AnswerFault,
    blocks_of,
    common_function,
    is_whole_module,
)
from codeflash_parallel.candidates.path_policy import collisions, refuse_form, refuse_new, refuse_path
from codeflash_parallel.candidates.source_text import SourceText, syntax_fault
from codeflash_parallel.result.candidate_model import (
    Candidate,
    Content,
    Edit,
    FileTexts,
    GitRef,
    ModelAnswer,
    PatchText,
    Replacement,
    Submission,
    Unappliable,
    digest_of,
    encoding_fault,
)
from codeflash_parallel.result.errors import UsageError
from codeflash_parallel.result.outcome_codes import Code
from codeflash_parallel.workspace.cache_layout import cache_faults, is_trouble_of_the_disk
from codeflash_parallel.workspace.git.git_client import (
    GITLINK,
    Git,
    GitFailed,
    TreeEntry,
    read_blobs,
    user_git,
)
from codeflash_parallel.workspace.git.patch import (
    ABSENT,
    PatchForm,
    PatchRefused,
    apply_somehow,
    complaint,
    file_diff,
)
from codeflash_parallel.workspace.snapshot.mirror import Mirror
from codeflash_parallel.workspace.snapshot.snapshot import Snapshot, resolve
from codeflash_parallel.workspace.tree_guard import parents

_PLAIN = "100644"
_EXECUTABLE = "100755"

_REGULAR = frozenset({"100644", "100755", "000000"})


@dataclass(frozen=True, kw_only=True, slots=True)
class DraftTree:
    """Changes of a candidate to the snapshot.

    Attributes:
        irregular: paths of edits that are, or were, symbolic links or submodules.
    """

    edits: tuple[Edit, ...]
    diff: str
    irregular: frozenset[str]


def draft_of_patch(mirror: Mirror, snapshot: Snapshot, patch: bytes) -> DraftTree:
    """Apply a patch to a snapshot, as `git apply` does. Blocking.

    Raises:
        PatchRefused: git refuses it.
        GitFailed: the mirror or its disk.
    """
    with mirror.home.scratch() as scratch:
        index = scratch / "index"
        index.write_bytes(mirror.index(snapshot))
        git = mirror.git.having(GIT_INDEX_FILE=index)
        project = str(mirror.repository.project)
        apply_somehow(patch, project, partial(_apply, git), partial(mirror.read, snapshot))
        return _read_off(git, snapshot.tree)


def draft_of_files(mirror: Mirror, snapshot: Snapshot, files: Mapping[str, bytes | None]) -> DraftTree:
    """Put whole files into a snapshot, or take them out (`None`); modes are kept. Blocking.

    Raises:
        PatchRefused: a file that is to be taken out is not there, or a path is a folder.
        GitFailed: the mirror or its disk.
    """
    entries = mirror.entries(snapshot)
    _must_fit(files, entries)
    sides = []
    for path, new in sorted(files.items()):
        old = mirror.read(snapshot, path)
        mode = entries[path].mode if path in entries else ABSENT
        if new is None or new != old:
            sides.append(_Sides(path, old, new, mode, _mode_after(new, mode)))
    return _draft_tree(sides)


class _Sides(NamedTuple):
    """A path before and after: bytes (`None`: no file) and git's modes."""

    path: str
    old: bytes | None
    new: bytes | None
    old_mode: str
    new_mode: str


def _draft_tree(changed: Sequence[_Sides]) -> DraftTree:
    edits = []
    for path, old, new, old_mode, new_mode in changed:
        old_digest = None if old_mode == ABSENT else digest_of(old or b"")
        edits.append(Edit(path=path, old_digest=old_digest, new=new, executable=new_mode == _EXECUTABLE))
    irregular = frozenset(one.path for one in changed if not {one.old_mode, one.new_mode} <= _REGULAR)
    return DraftTree(edits=tuple(edits), diff="".join(starmap(file_diff, changed)), irregular=irregular)


def _mode_after(new: bytes | None, mode: str) -> str:
    if new is None:
        return ABSENT
    return _PLAIN if mode == ABSENT else mode


def _must_fit(files: Mapping[str, bytes | None], entries: Mapping[str, TreeEntry]) -> None:
    """Refuse files that are not there to be removed, and files and folders of one name."""
    left = {path for path in entries if files.get(path, b"") is not None}
    folders = {parent for path in left for parent in parents(path)[1:]}
    for path, data in files.items():
        if data is None and path not in entries:
            raise PatchRefused(f"{path} is to be removed, but there is no such file")
        if data is not None and path in folders:
            raise PatchRefused(f"{path} is a folder")
        blocking = left.intersection(parents(path)[1:]) if data is not None else ()
        if blocking:
            raise PatchRefused(f"{min(blocking)} is a file, so {path} cannot be made")


def _apply(git: Git, form: PatchForm, patch: bytes) -> str:
    """Apply a patch to the index; return what git says against it, empty when it applied."""
    try:
        git.run("apply", "--cached", "--whitespace=nowarn", *form.options, "-", stdin=patch)
    except GitFailed as error:
        if is_trouble_of_the_disk(error):
            raise
        return complaint(error)
    return ""


def _read_off(git: Git, tree: str) -> DraftTree:
    """Return what differs between a tree and the index."""
    fields = git.run("diff-index", "--cached", "-z", "--no-renames", "--raw", tree).split(b"\0")
    raw = sorted(
        (os.fsdecode(path), *meta.decode().removeprefix(":").split(" ")[:4])
        for meta, path in zip(fields[0:-1:2], fields[1::2], strict=True)
    )
    sides = [side for _, *modes, old, new in raw for side in zip(modes, (old, new), strict=True)]
    # A submodule's commit is no blob of ours: it has no bytes.
    blobs = read_blobs(git, sorted({blob for mode, blob in sides if mode not in {ABSENT, GITLINK}}))

    def content(mode: str, blob: str) -> bytes | None:
        return None if mode == ABSENT else blobs.get(blob, b"")

    return _draft_tree(
        [
            _Sides(path, content(old_mode, old), content(new_mode, new), old_mode, new_mode)
            for path, old_mode, new_mode, old, new in raw
        ]
    )


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
        edits=draft.edits,
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
        case ModelAnswer(answer=text):
            code, what = Code.DOES_NOT_PARSE, "The answer"
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
        case ModelAnswer(answer=answer):
            make = partial(draft_of_files, mirror, snapshot, _answered(mirror, snapshot, answer, targets))
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


def _answered(
    mirror: Mirror, snapshot: Snapshot, answer: str, targets: Sequence[Target]
) -> dict[str, bytes | None]:
    """Return the files with what the blocks of an answer give: whole files, or functions of them."""
    try:
        blocks = blocks_of(answer)
    except AnswerFault as error:
        raise _Refused(Code.DOES_NOT_APPLY, f"{error}.") from error
    if not blocks[0].path:
        return _replaced(mirror, snapshot, Replacement(code=blocks[0].code), targets)
    files: dict[str, bytes | None] = {}
    for path, code in blocks:
        if reason := refuse_form(path):
            raise _Refused(Code.PATH_NOT_ALLOWED, f"{path!r}: {reason}.")
        old = files.get(path) or mirror.read(snapshot, path)
        files[path] = _in_form(path, _file_of_block(path, code, old, targets), old)
    return files


def _file_of_block(path: str, code: str, old: bytes | None, targets: Sequence[Target]) -> str:
    """Return the text of a file as a block has it: the block itself, or the file with its functions."""
    if old is None or not path.endswith(".py"):
        return code
    before = _source(path, old).text
    if is_whole_module(before, code):
        return code
    _parse_or_refuse(code, f"The block of {path}")
    preferred = tuple(target.qualname for target in targets if target.path == path)
    function = common_function(before, code, preferred)
    if not function:
        reason = f"The block of {path} is neither the whole file nor has one of its functions."
        raise _Refused(Code.DOES_NOT_APPLY, reason)
    try:
        return splice(before, code, function)
    except SpliceError as error:
        raise _Refused(Code(error.code), error.reason) from error


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


def _parse_or_refuse(code: str, what: str = "The replacement") -> None:
    fault = syntax_fault(code.encode("utf-8", "surrogateescape"))
    if fault:
        raise _Refused(Code.DOES_NOT_PARSE, f"{what} does not parse: {fault}.")


def _endings(qualname: str) -> set[str]:
    parts = qualname.split(".")
    return {".".join(parts[start:]) for start in range(len(parts))}


def _pass_the_gate(mirror: Mirror, snapshot: Snapshot, draft: DraftTree, targets: Sequence[Target]) -> None:
    """Refuse paths that a candidate may not touch."""
    allowed = {target.path for target in targets}
    present = set(mirror.paths(snapshot))
    new = {edit.path for edit in draft.edits if edit.old_digest is None}
    gone = {edit.path for edit in draft.edits if edit.new is None}
    for edit in draft.edits:
        path = edit.path
        reason = refuse_form(path) if path in allowed else refuse_path(path, protected=snapshot.protected)
        if not reason and path in draft.irregular:
            reason = "it is a symbolic link or a submodule"
        reason = reason or (refuse_new(path, present | new) if path in new else "")
        if reason:
            raise _Refused(Code.PATH_NOT_ALLOWED, f"A candidate may not touch {path!r}: {reason}.")
    colliding = collisions(new, present - gone)
    if colliding:
        reason = f"{colliding[0]!r} differs from another path only in case or spelling."
        raise _Refused(Code.PATH_NOT_ALLOWED, reason)


async def _must_parse(mirror: Mirror, snapshot: Snapshot, draft: DraftTree, interpreter: Path | None) -> None:
    """Refuse Python files that are none, unless the snapshot's were none either (templates)."""
    for edit in draft.edits:
        path, new = edit.path, edit.new
        if new is None or not path.endswith(".py"):
            continue
        old = mirror.read(snapshot, path)
        fault = syntax_fault(new, old or b"")
        if fault and interpreter is not None and await anyio.to_thread.run_sync(_compiles, interpreter, new):
            continue
        if fault and (old is None or not syntax_fault(old)):
            raise _Refused(Code.DOES_NOT_PARSE, f"{path} does not parse: {fault}.")


#: Compiling one file takes milliseconds; an interpreter that needs longer says nothing about the text.
_COMPILE_DEADLINE_S = 20.0
_COMPILE = "import sys; compile(sys.stdin.buffer.read(), sys.argv[1], 'exec', dont_inherit=True)"


def _compiles(interpreter: Path, source: bytes) -> bool:
    """Ask the project's Python, which may be newer than ours; nothing is executed."""
    try:
        done = subprocess.run(
            (interpreter, "-I", "-S", "-c", _COMPILE, "candidate.py"),
            input=source,
            capture_output=True,
            timeout=_COMPILE_DEADLINE_S,
            check=False,
            env={"PYTHONWARNINGS": "ignore"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
