"""Find the functions that a run is about: the ones named, else the ones that the candidates change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import PurePosixPath

from codeflash_parallel.candidates.functions import Target, functions_of, touched
from codeflash_parallel.result.candidate.candidate_model import Candidate, Replacement, Submission
from codeflash_parallel.result.errors import UsageError
from codeflash_parallel.run.intake.target_names import must_be_there
from codeflash_parallel.workspace.snapshot.candidate_builder import materialise
from codeflash_parallel.workspace.snapshot.mirror import Mirror, Snapshot

#: A file larger than this is not searched for a function that was named without its path.
_LARGEST_SOURCE = 2_000_000


def named_targets(mirror: Mirror, snapshot: Snapshot, functions: Sequence[str]) -> tuple[Target, ...]:
    """Read and verify the functions that the user named.

    Raises:
        UsageError: `BAD_FUNCTION`, or `NO_SUCH_FUNCTION` with what there is instead.
    """
    targets = tuple(dict.fromkeys(Target.parse(text) for text in functions))
    for target in targets:
        must_be_there(target, mirror.read(snapshot, target.path), partial(mirror.paths, snapshot))
    return targets


async def derived_targets(
    mirror: Mirror, snapshot: Snapshot, submissions: Iterable[Submission]
) -> tuple[Target, ...]:
    """Return the functions that some candidates change; none when their changes lie outside functions."""
    found: set[Target] = set()
    for submission in submissions:
        content = submission.content
        if isinstance(content, Replacement):
            found |= set(_replaced(mirror, snapshot, content))
            continue
        made = await materialise(mirror, snapshot, submission, ())
        if isinstance(made, Candidate):
            found |= set(_touched(mirror, snapshot, made))
    return tuple(sorted(found))


def _replaced(mirror: Mirror, snapshot: Snapshot, replacement: Replacement) -> Iterable[Target]:
    """Return the one function that a replacement without a path can mean."""
    try:
        if replacement.function:
            return (Target.parse(replacement.function),)
        names = functions_of(replacement.code)
    except (UsageError, SyntaxError):
        return ()  # the candidate's mistake: it is told when it is materialised
    homes = [(path, functions) for path, functions in _sources(mirror, snapshot)]
    for name in names:
        having = [path for path, functions in homes if name in functions]
        if len(having) == 1:
            return (Target(path=having[0], qualname=name),)
    return ()


def _sources(mirror: Mirror, snapshot: Snapshot) -> Iterable[tuple[str, tuple[str, ...]]]:
    for path in mirror.paths(snapshot):
        if not path.endswith(".py") or is_test(path):
            continue
        source = mirror.read(snapshot, path)
        if source is None or len(source) > _LARGEST_SOURCE:
            continue
        try:
            yield path, functions_of(source.decode("utf-8", "replace"))
        except SyntaxError:
            continue


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
    """Say whether a file looks like one of tests, by its path."""
    name = PurePosixPath(path)
    in_tests = any(part in {"test", "tests"} for part in name.parts[:-1])
    return in_tests or name.name.startswith("test_") or name.name == "conftest.py"
