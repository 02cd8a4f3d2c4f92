"""Protocols of repairers and refiners: requests and answers as values and as JSON, and the check of answers.

A request is one object on stdin::

    {"protocol": 1, "kind": "repair", "candidate": …, "targets": […], "code": …, "reason": …, "diff": …,
     "source": {path: text}, "failures": [{"id", "phase", "message"}], "missing": [ids],
     "difference": {"target", "test", "call", "inputs", "expected", "got"} | null, "ancestry": [ids]}

    {"protocol": 1, "kind": "refine", "requests": [
        {"candidate": …, "kind": "first" | "adaptive", "targets": […], "diff": …, "source": {path: text},
         "speedup": {"estimate", "low", "high", "clock", "stage"},
         "profile": {"tracer", "lines": [{"path", "line", "hits", "time_ns", "text"}]} | null,
         "baseline_profile": the same,
         "ancestry": [{"candidate", "diff", "explanation", "speedup" | null}]}]}

An answer on stdout is nothing, ``null``, one object, a list of objects, or ``{"answers": [objects]}``; an
object holds exactly one of ``patch`` (unified diff), ``replacement`` (Python text; ``function`` may name what
it replaces) and ``edits`` (``{path: text | null}`` or ``[{"path", "text"}]``), all of them relative to the
snapshot, and may hold ``explanation`` and ``parent`` (a candidate of the request).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from codeflash_parallel.result.candidate_model import (
    CONTENT_FIELDS,
    CandidateId,
    Content,
    FileTexts,
    GitRef,
    ModelAnswer,
    PatchText,
    Replacement,
    content_document,
    content_of,
    text_field,
)
from codeflash_parallel.result.codec import from_plain, to_plain
from codeflash_parallel.result.errors import UsageError
from codeflash_parallel.result.result_model import FailedTest, FirstDifference, LineProfile, Speedup


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """One new candidate proposed by a provider.

    Attributes:
        content: the change, relative to the *snapshot* (not to the parent).
        explanation: the author's words.
        parent: id of the request's candidate it descends from; empty: the first of the request.
    """

    content: Content
    explanation: str = ""
    parent: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class RepairRequest:
    """Evidence about one candidate that is not equivalent.

    Attributes:
        code: stable code of the rejection.
        diff: the candidate's change as a unified diff.
        source: text of the target's file with the candidate applied, by path.
        failures: failing tests with their messages.
        difference: first differing call, where values differ.
        ancestry: ids from the oldest ancestor to the candidate itself.
    """

    candidate: CandidateId
    targets: tuple[str, ...]
    code: str
    reason: str
    diff: str
    source: tuple[tuple[str, str], ...]
    failures: tuple[FailedTest, ...] = ()
    missing: tuple[str, ...] = ()
    difference: FirstDifference | None = None
    ancestry: tuple[CandidateId, ...] = ()


class RefinementKind(StrEnum):
    """Kind of a refinement."""

    #: Make this winner faster still.
    FIRST = "first"
    #: Descends from a refinement: adapt, seeing the whole ancestry and what each step brought.
    ADAPTIVE = "adaptive"


@dataclass(frozen=True, kw_only=True, slots=True)
class Ancestor:
    """One step of a lineage, the oldest first, with what it brought."""

    candidate: CandidateId
    diff: str
    explanation: str
    speedup: Speedup | None


@dataclass(frozen=True, kw_only=True, slots=True)
class RefinementRequest:
    """Evidence about one candidate that is faster.

    Attributes:
        profile, baseline_profile: line profiles of the candidate and of the baseline; `None` if the
            profiler failed (then `speedup` is the evidence).
        ancestry: every ancestor and, last, the candidate itself.
    """

    candidate: CandidateId
    kind: RefinementKind
    targets: tuple[str, ...]
    diff: str
    source: tuple[tuple[str, str], ...]
    speedup: Speedup
    profile: LineProfile | None = None
    baseline_profile: LineProfile | None = None
    ancestry: tuple[Ancestor, ...] = ()


class Repairer(Protocol):
    """Answers a repair request with a new candidate, several, or `None` when it has no idea."""

    def __call__(self, request: RepairRequest, /) -> Answer | Sequence[Answer] | None:
        """Answer one request; called on a thread of an executor."""
        ...


class Refiner(Protocol):
    """Answers a *batch* of refinement requests: all winners ready at that moment."""

    def __call__(self, requests: Sequence[RefinementRequest], /) -> Answer | Sequence[Answer] | None:
        """Answer a batch of requests; called on a thread of an executor."""
        ...


#: More answers than this to one request are a provider gone wild.
MAX_ANSWERS = 64


class MalformedAnswer(ValueError):  # noqa: N818 - the provider's mistake, told in its request's outcome
    """A provider returned something else than answers; the message says what is wrong with it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProviderAnswers:
    """A provider's answers; none when it has no idea. Each one's `parent` is set."""

    answers: tuple[Answer, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ProviderFailure:
    """There is no answer: the provider raised, hung, answered something malformed, or is switched off."""

    reason: str


Outcome = ProviderAnswers | ProviderFailure


def checked_answers(value: object, parents: Sequence[CandidateId]) -> tuple[Answer, ...]:
    """Return what a provider returned as well-formed answers with their parents.

    Args:
        value: an `Answer`, an iterable of them, or `None`.
        parents: candidates of the request; the first is the parent of answers that name none.

    Raises:
        MalformedAnswer: it is something else.
    """
    if value is None:
        return ()
    if isinstance(value, Answer):
        value = (value,)
    if not isinstance(value, Iterable) or isinstance(value, str | bytes):
        raise MalformedAnswer(f"expected an Answer, a sequence of them or None, not {type(value).__name__}")
    answers = tuple(_checked(item, parents) for item in islice(value, MAX_ANSWERS + 1))
    if len(answers) > MAX_ANSWERS:
        raise MalformedAnswer(f"more than {MAX_ANSWERS} answers to one request")
    return answers


def _checked(answer: object, parents: Sequence[CandidateId]) -> Answer:
    if not isinstance(answer, Answer):
        raise MalformedAnswer(f"expected an Answer, not {type(answer).__name__}")
    if not isinstance(answer.explanation, str) or not isinstance(answer.parent, str):
        raise MalformedAnswer("explanation and parent must be texts")
    _check_content(answer.content)
    if answer.parent and answer.parent not in parents:
        raise MalformedAnswer(f"parent {answer.parent!r} is not a candidate of the request")
    return replace(answer, parent=answer.parent or parents[0])


def _check_content(content: object) -> None:
    """Refuse a foreign object that is no content of a candidate, or an empty one."""
    try:
        # A git ref is for callables of the caller's own process: it has no form as a document.
        given = content if isinstance(content, GitRef) else content_of(content_document(content))  # type: ignore[arg-type]
    except (AttributeError, TypeError, ValueError) as error:
        raise MalformedAnswer(f"{type(content).__name__} is no content of a candidate: {error}") from error
    match given if given == content else None:
        case PatchText(patch=str(text)) | GitRef(ref=str(text)) | Replacement(code=str(text)) if text.strip():
            return
        case ModelAnswer(answer=str(text)) if text.strip():
            return
        case FileTexts(files=files) if files and all(file.path.strip() for file in files):
            return
    raise MalformedAnswer(f"{type(content).__name__} must hold texts, and not empty ones")


#: Version of the request's format.
PROTOCOL = 1

_FIELDS = frozenset({*CONTENT_FIELDS, "function", "explanation", "parent"})

Document = dict[str, Any]


#: One repair request, or a batch of refinement requests.
Question = RepairRequest | Sequence[RefinementRequest]


def request_document(question: Question) -> Document:
    """Return a request as JSON values."""
    if isinstance(question, RepairRequest):
        return {"protocol": PROTOCOL, "kind": "repair", **_request(question)}
    return {"protocol": PROTOCOL, "kind": "refine", "requests": [_request(r) for r in question]}


def read_request(document: Document) -> Question:
    """Return the request that `request_document` wrote."""
    if document["kind"] == "refine":
        return tuple(_read(RefinementRequest, data) for data in document["requests"])
    data = {name: value for name, value in document.items() if name not in {"protocol", "kind"}}
    request: RepairRequest = _read(RepairRequest, data)
    return request


def read_answers(text: str) -> tuple[Answer, ...]:
    """Return the answers that a command printed.

    Raises:
        MalformedAnswer: it is not of the form that this module describes.
    """
    if not text.strip():
        return ()
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MalformedAnswer(f"the answer is not JSON: {error}") from error
    if isinstance(data, dict) and "answers" in data:
        data = data["answers"]
    if data is None:
        return ()
    return tuple(_answer(item) for item in (data if isinstance(data, list) else [data]))


def _request(request: RepairRequest | RefinementRequest) -> Document:
    return {**to_plain(request), "source": dict(request.source)}


def _read(kind: type, data: Document) -> Any:
    return from_plain(kind, {**data, "source": [list(pair) for pair in data["source"].items()]})


def _answer(data: object) -> Answer:
    if not isinstance(data, dict):
        raise MalformedAnswer(f"an answer must be an object, not {type(data).__name__}")
    unknown = sorted(map(str, data.keys() - _FIELDS))
    if unknown:
        raise MalformedAnswer(f"an answer has no field {', '.join(unknown)}")
    try:
        return Answer(
            content=content_of(data),
            explanation=text_field(data, "explanation"),
            parent=text_field(data, "parent"),
        )
    except (ValueError, TypeError) as error:
        raise MalformedAnswer(str(error)) from error


# ---- the process that calls a Python provider


def load_callable(spec: str) -> Callable[..., Any]:
    """Return the callable that ``module:name`` or ``path.py:name`` names.

    Raises:
        UsageError: `BAD_PROVIDER` when there is none.
    """
    where, _, name = spec.rpartition(":")
    if where.endswith(".py"):
        sys.path.insert(0, str(Path(where).resolve().parent))
    try:
        found = getattr(loaded_module(where), name)
    except (ImportError, AttributeError, OSError) as error:
        raise UsageError("BAD_PROVIDER", f"The provider {spec!r} cannot be loaded: {error}.") from error
    if not callable(found):
        raise UsageError("BAD_PROVIDER", f"The provider {spec!r} is not callable.")
    return found  # type: ignore[no-any-return]


def main(arguments: Sequence[str]) -> int:
    """Read a request from stdin and print the answers of the Python provider that is named."""
    (spec,) = arguments
    # stdout is ours; what the provider prints goes where people look for it
    answers_to = os.dup(1)
    os.dup2(2, 1)
    if isinstance(sys.stdout, TextIOWrapper):  # what is printed comes before what goes wrong afterwards
        sys.stdout.reconfigure(line_buffering=True)
    question = read_request(json.load(sys.stdin))
    asked = (question,) if isinstance(question, RepairRequest) else question
    found = checked_answers(load_callable(spec)(question), [request.candidate for request in asked])
    answers = [answer_document(answer) for answer in found]
    with os.fdopen(answers_to, "w") as file:
        json.dump(answers, file)
    return 0


def answer_document(answer: Answer) -> Document:
    """Return an answer as JSON values.

    Raises:
        MalformedAnswer: it names a git ref, which only the caller's own process can mean.
    """
    if isinstance(answer.content, GitRef):
        raise MalformedAnswer("a git ref cannot be an answer; give a patch, a replacement, Markdown or edits")
    about = {"explanation": answer.explanation, "parent": answer.parent}
    return {**content_document(answer.content), **about}


def loaded_module(place: str, prefix: str = "") -> ModuleType:
    """Return the module that a name or the path of a file names; importing it runs it.

    Args:
        prefix: begins the name under which a file's module is known: then it shadows none of the same stem.

    Raises:
        ImportError, OSError: there is none.
    """
    if not place.endswith(".py"):
        return import_module(place)
    path = Path(place).resolve()
    if not path.is_file():
        raise ImportError(f"there is no file {place}")
    spec = spec_from_file_location(f"{prefix}{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{place} is no Python file")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses, pickles and type hints look for it there
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[spec.name]
        raise
    return module
