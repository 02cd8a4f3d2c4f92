"""Requests and answers as JSON, the way command providers see them. The reference page describes the format.

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
from collections.abc import Sequence
from typing import Any

from codeflash_parallel.repair.provider_protocol import (
    Answer,
    MalformedAnswer,
    RefinementRequest,
    RepairRequest,
)
from codeflash_parallel.result.candidate.candidate_model import GitRef
from codeflash_parallel.result.candidate.content_json import (
    CONTENT_FIELDS,
    content_document,
    content_of,
    text_field,
)
from codeflash_parallel.result.codec import from_plain, to_plain

#: Version of the request's format.
PROTOCOL = 1

_FIELDS = frozenset({*CONTENT_FIELDS, "function", "explanation", "parent"})

Document = dict[str, Any]


def repair_document(request: RepairRequest) -> Document:
    """Return a repair request as JSON values."""
    return {"protocol": PROTOCOL, "kind": "repair", **_request(request)}


def refinement_document(requests: Sequence[RefinementRequest]) -> Document:
    """Return a batch of refinement requests as JSON values."""
    return {"protocol": PROTOCOL, "kind": "refine", "requests": [_request(r) for r in requests]}


def read_repair(document: Document) -> RepairRequest:
    """Return the request that `repair_document` wrote."""
    data = {name: value for name, value in document.items() if name not in {"protocol", "kind"}}
    request: RepairRequest = _read(RepairRequest, data)
    return request


def read_refinements(document: Document) -> tuple[RefinementRequest, ...]:
    """Return the requests that `refinement_document` wrote."""
    return tuple(_read(RefinementRequest, data) for data in document["requests"])


def answers_document(answers: Sequence[Answer]) -> list[Document]:
    """Return answers as JSON values.

    Raises:
        MalformedAnswer: an answer names a git ref, which only the caller's own process can mean.
    """
    return [_answer_document(answer) for answer in answers]


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


def _answer_document(answer: Answer) -> Document:
    if isinstance(answer.content, GitRef):
        raise MalformedAnswer("a git ref cannot be an answer; give a patch, a replacement or edits")
    about = {"explanation": answer.explanation, "parent": answer.parent}
    return {**content_document(answer.content), **about}


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
