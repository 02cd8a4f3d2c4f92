"""Target functions of a run: the named ones, else those that candidates change.

Loads little: `queue submit` needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePosixPath

from codeflash_parallel.candidates.functions import Target, functions_of, locate, parse_or_none, touched
from codeflash_parallel.candidates.python_source import parse
from codeflash_parallel.config.settings import Settings
from codeflash_parallel.result.candidate_model import Candidate, Replacement, Submission
from codeflash_parallel.result.errors import UsageError
from codeflash_parallel.workspace.git.git_client import GitFailed, Repository, list_tree, user_git
from codeflash_parallel.workspace.git.work_tree_files import list_work_tree
from codeflash_parallel.workspace.snapshot.mirror import Mirror, Snapshot
from codeflash_parallel.workspace.snapshot.snapshot import resolve


def must_have_named(repository: Repository, settings: Settings) -> None:
    """Look whether what the user named is there, before any lock is waited for.

    What cannot be seen without a snapshot is left to `targets_of`.

    Raises:
        UsageError: `BAD_FUNCTION`, `NO_SUCH_FUNCTION`, `BAD_BENCHMARK` or `BAD_JUDGE`, as `run` has them.
    """
    commit = resolve(repository, settings.base) if settings.base else ""
    targets = [*map(Target.parse, settings.functions)]
    for setting, place in (("benchmark", settings.benchmark), ("accept", settings.accept)):
        if place:
            source = _source(repository, commit, place.partition("::")[0])
            named_callable(setting, place, source, targets)
    for target in targets:
        source = _source(repository, commit, target.path)
        if commit and source is not None and parse_or_none(source.decode("utf-8", "replace")) is None:
            continue  # git keeps it in another form than the disk has it: a filter
        _must_be_there(target, source, partial(_paths, repository, commit))


#: By setting that names a callable: the code of an error, and what is wrong with one in the file of a target.
_CALLABLES = {
    "benchmark": ("BAD_BENCHMARK", "no candidate's code would be timed"),
    "accept": ("BAD_JUDGE", "candidates would change their own judge"),
}


def named_callable(
    setting: str, place: str, source: bytes | None, targets: Iterable[Target]
) -> dict[str, str]:
    """Return what a runner's spec says of a callable that the user names: `path`, `name` and `source`.

    Args:
        setting: `benchmark` or `accept`.
        place: `path::name`.
        source: what the file holds; `None`: there is no such file.
        targets: of the run.

    Raises:
        UsageError: `BAD_BENCHMARK` or `BAD_JUDGE`, with what to do.
    """
    path, _, name = place.partition("::")
    code, why = _CALLABLES[setting]
    if source is None:
        hint = "The path is relative to the repository's root."
        raise UsageError(code, f"{setting} names {path}, which the snapshot does not have.", hint)
    if path in {target.path for target in targets}:
        message = f"{setting} names {path}, which holds a target: {why}."
        raise UsageError(code, message, "Put it into a file of its own that imports the target.")
    return {"path": path, "name": name, "source": source.decode("utf-8", "surrogateescape")}


def _source(repository: Repository, commit: str, path: str) -> bytes | None:
    """Return what a file of the snapshot-to-be holds, `None` if there is none."""
    if commit:
        with suppress(GitFailed):  # ignored files and submodules come from the disk
            return user_git(repository.root).run("cat-file", "blob", f"{commit}:{path}")
    with suppress(OSError):
        return (repository.root / path).read_bytes()
    return None


def _paths(repository: Repository, commit: str) -> Iterable[str]:
    """Return the files of the snapshot-to-be, for a hint."""
    import tempfile

    if commit:
        return list_tree(user_git(repository.root), commit)
    with tempfile.TemporaryDirectory(prefix="codeflash-parallel-") as scratch:
        return list_work_tree(repository, (), Path(scratch)).files


def _must_be_there(target: Target, source: bytes | None, paths: Callable[[], Iterable[str]]) -> None:
    """Look whether a file holds a function.

    Args:
        source: what the file holds; `None`: there is no such file.
        paths: names the files that there are instead.

    Raises:
        UsageError: `NO_SUCH_FUNCTION`, with what there is instead.
    """
    if source is None:
        raise _missing(
            f"There is no {target.path} in the snapshot.",
            _close(target.path, paths(), most=1) or "Paths are relative to the repository's root.",
        )
    text = source.decode("utf-8", "replace")
    try:
        parse(text)
    except SyntaxError as error:
        raise _missing(f"{target.path} does not parse: {error.msg}.") from error
    if locate(text, target.qualname) is None:
        raise _missing(
            f"{target.path} has no function {target.qualname}.",
            _close(target.qualname, functions_of(text), most=3) or "Give the dotted name, e.g. Class.method.",
        )


def _missing(message: str, hint: str = "") -> UsageError:
    return UsageError("NO_SUCH_FUNCTION", message, hint)


def _close(name: str, names: Iterable[str], *, most: int) -> str:
    import difflib

    near = difflib.get_close_matches(name, list(names), n=most)
    return f"Did you mean {' or '.join(near)}?" if near else ""


#: A file larger than this is not searched for a function that was named without its path.
_LARGEST_SOURCE = 2_000_000


async def targets_of(
    mirror: Mirror, snapshot: Snapshot, named: Sequence[str], submissions: Iterable[Submission]
) -> tuple[Target, ...]:
    """Return the functions that are named, else those that some candidates change; there may be none.

    Raises:
        UsageError: `BAD_FUNCTION`, or `NO_SUCH_FUNCTION` with what there is instead.
    """
    from codeflash_parallel.workspace.snapshot.candidate_builder import materialise

    targets = tuple(dict.fromkeys(map(Target.parse, named)))
    for target in targets:
        _must_be_there(target, mirror.read(snapshot, target.path), partial(mirror.paths, snapshot))
    if targets:
        return targets
    found: set[Target] = set()
    for submission in submissions:
        if isinstance(submission.content, Replacement):
            found.update(_replaced(mirror, snapshot, submission.content))
        elif isinstance(made := await materialise(mirror, snapshot, submission, ()), Candidate):
            found.update(_touched(mirror, snapshot, made))
    return tuple(sorted(found))


def _replaced(mirror: Mirror, snapshot: Snapshot, replacement: Replacement) -> Iterable[Target]:
    """Return the one function that a replacement without a path can mean."""
    try:
        if replacement.function:
            return (Target.parse(replacement.function),)
        names = functions_of(replacement.code)
    except (UsageError, SyntaxError):
        return ()  # the candidate's mistake: it is told when it is materialised
    functions = {path: _functions_in(mirror, snapshot, path) for path in mirror.paths(snapshot)}
    for name in names:
        having = [path for path, there in functions.items() if name in there]
        if len(having) == 1:
            return (Target(path=having[0], qualname=name),)
    return ()


def _functions_in(mirror: Mirror, snapshot: Snapshot, path: str) -> Sequence[str]:
    """Return the functions of a file that is no test."""
    source = mirror.read(snapshot, path) if path.endswith(".py") and not is_test(path) else None
    if source is None or len(source) > _LARGEST_SOURCE:
        return ()
    try:
        return functions_of(source.decode("utf-8", "replace"))
    except SyntaxError:
        return ()


def _touched(mirror: Mirror, snapshot: Snapshot, candidate: Candidate) -> Iterable[Target]:
    for edit in candidate.edits:
        old = mirror.read(snapshot, edit.path)
        if not edit.path.endswith(".py") or old is None or edit.new is None or is_test(edit.path):
            continue
        try:
            names = touched(old.decode("utf-8", "replace"), edit.new.decode("utf-8", "replace"))
        except (SyntaxError, ValueError):
            continue
        yield from (Target(path=edit.path, qualname=name) for name in names)


def is_test(path: str) -> bool:
    """Return whether a file looks like one of tests, by its path."""
    name = PurePosixPath(path)
    in_tests = any(part in {"test", "tests"} for part in name.parts[:-1])
    return in_tests or name.name.startswith("test_") or name.name == "conftest.py"
