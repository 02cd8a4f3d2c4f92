"""What comes back from a provider: checked answers, or why there are none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from codeflash_parallel.repair.provider_protocol import Answer
from codeflash_parallel.result.candidate_model import (
    CandidateId,
    FileText,
    FileTexts,
    GitRef,
    PatchText,
    Replacement,
    encoding_fault,
)

#: More answers than this to one request are a provider gone wild.
MAX_ANSWERS = 64


class MalformedAnswer(ValueError):  # noqa: N818 - the provider's mistake, told in its request's outcome
    """What a provider returned is no answer; the message says what is wrong with it."""


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
    """Check a content whose types nobody has checked: it is foreign."""
    optional: list[object] = []
    match content:
        case PatchText(patch=text) | GitRef(ref=text):
            needed: list[object] = [text]
        case Replacement(code=text, function=function):
            needed, optional = [text], [function]
        case FileTexts(files=tuple(files)) if files and all(isinstance(f, FileText) for f in files):
            needed = [file.path for file in files]
            optional = [file.text for file in files if file.text is not None]
        case _:
            raise MalformedAnswer(f"{type(content).__name__} is no content of a candidate, or an empty one")
    if not all(isinstance(t, str) for t in (*needed, *optional)) or not all(str(t).strip() for t in needed):
        raise MalformedAnswer(f"{type(content).__name__} must hold texts, and not empty ones")
    fault = next(filter(None, (encoding_fault(str(text)) for text in (*needed, *optional))), "")
    if fault:
        raise MalformedAnswer(f"{type(content).__name__} cannot be written to a file: {fault}")
