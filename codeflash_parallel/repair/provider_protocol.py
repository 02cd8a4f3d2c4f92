"""Protocols of repairers and refiners: requests, answers, and the check of answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
from typing import Protocol

from codeflash_parallel.result.candidate.candidate_model import (
    CandidateId,
    Content,
    FileTexts,
    GitRef,
    PatchText,
    Replacement,
)
from codeflash_parallel.result.candidate.content_json import content_document, content_of
from codeflash_parallel.result.check_evidence import FailedTest, FirstDifference
from codeflash_parallel.result.line_profile import LineProfile
from codeflash_parallel.result.result_model import Speedup


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
        case FileTexts(files=files) if files and all(file.path.strip() for file in files):
            return
    raise MalformedAnswer(f"{type(content).__name__} must hold texts, and not empty ones")
