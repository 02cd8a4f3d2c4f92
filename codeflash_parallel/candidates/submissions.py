"""Candidates as people hand them in: folders, patches, Python files, manifests, standard input, git refs."""

from __future__ import annotations

import itertools
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, NamedTuple

from codeflash_parallel.candidates.model_answer import has_code
from codeflash_parallel.result.candidate_model import (
    CONTENT_FIELDS,
    CandidateId,
    Content,
    GitRef,
    ModelAnswer,
    PatchText,
    Replacement,
    Submission,
    content_of,
    text_field,
)
from codeflash_parallel.result.errors import UsageError

#: Files that hold one patch each.
_PATCHES = frozenset({".patch", ".diff"})
#: Files that hold a new version of one function.
_PYTHON = ".py"
#: Files that hold a candidate a line.
_MANIFEST = ".jsonl"
#: Files that hold the answer of a model.
_ANSWER = ".md"
_SUFFIXES = _PATCHES | {_PYTHON, _MANIFEST, _ANSWER}

#: Stands for standard input.
STDIN = "-"

#: All fields of a manifest's line.
_FIELDS = frozenset({"id", "parent", "explanation", "function", *CONTENT_FIELDS})

#: Ids become file names and columns of tables.
_MAX_ID = 128

#: Says "equal to the code as it is" where an id is expected.
_RESERVED = frozenset({"baseline"})


class CandidateSource(NamedTuple):
    """The value of one option that names candidates, `--candidates PATH` or `--candidate REF`."""

    text: str
    is_ref: bool = False


class ManifestEntry(NamedTuple):
    """A candidate as it was read; one whose id was not chosen by its author may be renamed."""

    submission: Submission
    named: bool


#: Finds candidates of a repository by a text, as (name, change, explanation); `None`: it names none there.
InRepository = Callable[[str], Iterable[tuple[str, Content, str]] | None]


def read_submissions(
    sources: Sequence[CandidateSource], in_repository: InRepository = lambda _: None
) -> list[Submission]:
    """Read every candidate, in the order of the options, within a folder in natural order.

    Args:
        sources: values of the options.
        in_repository: asked about a text that is the path of nothing.

    Raises:
        UsageError: a path is missing or of an unknown kind, a line of a manifest is bad, or ids clash.
    """
    if sources.count(CandidateSource(STDIN)) > 1:
        raise UsageError("BAD_CANDIDATES", "Standard input can be read only once.")
    handed = [candidate for source in sources for candidate in _read(source, in_repository)]
    named = [candidate.submission for candidate in handed if candidate.named]
    _refuse_clashes(named)
    _refuse_cycles(named)
    return list(_with_unique_ids(handed, {submission.id for submission in named}))


def read_manifest(name: str, text: str) -> Iterator[ManifestEntry]:
    """Yield the candidates of a manifest; empty lines are skipped, an absent id becomes the line's number.

    Raises:
        UsageError: `BAD_MANIFEST`, with file and line.
    """
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield _handed(json.loads(line), f"candidate-{number}")
            except (ValueError, TypeError, RecursionError) as error:
                raise UsageError("BAD_MANIFEST", f"{name}:{number}: {_told(error)}.") from error


def is_id(text: str) -> bool:
    """Tell whether a text may be a candidate's id."""
    return 0 < len(text) <= _MAX_ID and text.isprintable() and "/" not in text and text not in _RESERVED


def natural(name: str) -> tuple[list[tuple[int, int, str]], str]:
    """Return a sort key that puts `c2` before `c10`."""
    parts = re.split(r"([0-9]+)", name)
    return [(1, 0, part) if place % 2 == 0 else (0, int(part), "") for place, part in enumerate(parts)], name


def _read(source: CandidateSource, in_repository: InRepository) -> Iterator[ManifestEntry]:
    if source.is_ref:
        yield _unnamed(source.text, GitRef(ref=source.text))
    elif not source.text:
        raise UsageError("BAD_CANDIDATES", "--candidates names nothing: its value is empty.")
    elif source.text == STDIN:
        yield from read_manifest("standard input", _decoded(_standard_input()))
    elif not (path := Path(source.text)).exists() and (found := in_repository(source.text)) is not None:
        for name, content, explanation in found:
            yield _unnamed(name, content, explanation)
    else:
        yield from _read_path(path)


def _standard_input() -> bytes:
    if sys.stdin is None:
        raise UsageError("BAD_CANDIDATES", "--candidates -: there is no standard input.")
    try:
        return sys.stdin.buffer.read()
    except OSError as error:
        raise UsageError("BAD_CANDIDATES", f"--candidates -: {error.strerror}.") from error


def _read_path(path: Path) -> Iterator[ManifestEntry]:
    try:
        if path.is_dir():
            for file in sorted(_candidate_files(path), key=lambda file: natural(file.name)):
                yield from _read_file(file)
        else:
            yield from _read_file(path)
    except OSError as error:
        raise UsageError("BAD_CANDIDATES", f"--candidates {path}: {error.strerror}.") from error


def _candidate_files(folder: Path) -> Iterator[Path]:
    return (
        p
        for p in folder.iterdir()
        if p.suffix in _SUFFIXES and not p.name.startswith(".") and p.is_file() and not _is_about_others(p)
    )


def _is_about_others(path: Path) -> bool:
    """Return whether a Markdown file is a text about candidates, and none itself."""
    return path.suffix == _ANSWER and (path.stem == "README" or not has_code(_decoded(path.read_bytes())))


def _read_file(path: Path) -> Iterator[ManifestEntry]:
    data = path.read_bytes()
    if path.suffix == _MANIFEST:
        yield from read_manifest(str(path), _decoded(data))
    elif path.suffix == _PYTHON:
        yield _unnamed(path.stem, Replacement(code=_source(data)))
    elif path.suffix == _ANSWER:
        yield _unnamed(path.stem, ModelAnswer(answer=_decoded(data)))
    elif path.suffix in _PATCHES:
        yield _unnamed(path.stem, PatchText(patch=_decoded(data)))
    else:
        raise UsageError(
            "BAD_CANDIDATES",
            f"--candidates {path} is neither a folder nor one of {', '.join(sorted(_SUFFIXES))}.",
        )


def _unnamed(name: str, content: Content, explanation: str = "") -> ManifestEntry:
    submission = Submission(id=CandidateId(_as_id(name)), content=content, explanation=explanation)
    return ManifestEntry(submission=submission, named=False)


def _as_id(name: str) -> str:
    """Make an id of a file's stem or a ref: what may not stand in one becomes an underscore."""
    return "".join(c if c.isprintable() and c != "/" else "_" for c in name)[:_MAX_ID] or "candidate"


def _decoded(data: bytes) -> str:
    """Return text that encodes to the same bytes again: a patch may touch files in any encoding."""
    return data.decode("utf-8", "surrogateescape")


def _source(data: bytes) -> str:
    """Return Python source by its coding line; one that cannot be decoded is judged as it is, and fails."""
    import importlib.util

    try:
        return importlib.util.decode_source(data)
    except (SyntaxError, UnicodeDecodeError):
        return data.decode("utf-8", "replace")


def _refuse_clashes(named: Sequence[Submission]) -> None:
    for name, count in Counter(submission.id for submission in named).items():
        if count > 1:
            raise UsageError("BAD_CANDIDATES", f"The id {name!r} is given to {count} candidates.")


def _refuse_cycles(named: Sequence[Submission]) -> None:
    try:
        TopologicalSorter({one.id: [one.parent] if one.parent else [] for one in named}).prepare()
    except CycleError as error:
        message = f"Candidate {error.args[1][0]!r} is its own ancestor."
        raise UsageError("BAD_CANDIDATES", message) from error


def _with_unique_ids(handed: Iterable[ManifestEntry], taken: set[CandidateId]) -> Iterator[Submission]:
    for candidate in handed:
        if candidate.named:
            yield candidate.submission
        else:
            free = _free(candidate.submission.id, taken)
            taken.add(free)
            yield replace(candidate.submission, id=free)


def _free(name: str, taken: set[CandidateId]) -> CandidateId:
    """Return a name that is not taken: itself, or with the first number that makes it unique."""
    names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    return next(CandidateId(free) for free in names if free not in taken and free not in _RESERVED)


def _told(error: Exception) -> str:
    return f"not JSON: {error}" if isinstance(error, json.JSONDecodeError) else str(error)


def _handed(data: Any, default_id: str) -> ManifestEntry:
    if not isinstance(data, dict):
        raise TypeError("a line must be a JSON object")
    unknown = data.keys() - _FIELDS
    if unknown:
        raise ValueError(
            f"unknown field {', '.join(sorted(unknown))}; known are {', '.join(sorted(_FIELDS))}"
        )
    name = text_field(data, "id", default_id)
    parent = text_field(data, "parent", "")
    if not is_id(name):
        raise ValueError(
            f"id {name!r} must be 1 to {_MAX_ID} printable characters, without / and not 'baseline'"
        )
    submission = Submission(
        id=CandidateId(name),
        content=content_of(data),
        parent=CandidateId(parent) if parent else None,
        explanation=text_field(data, "explanation", ""),
    )
    return ManifestEntry(submission=submission, named=data.get("id") is not None)
