"""Requests and answers as JSON, as command providers see them, and the process that calls a Python provider.

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
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from io import TextIOWrapper
from pathlib import Path
from types import ModuleType
from typing import Any

from codeflash_parallel.repair.provider_protocol import (
    Answer,
    MalformedAnswer,
    RefinementRequest,
    RepairRequest,
    checked_answers,
)
from codeflash_parallel.result.candidate.candidate_model import GitRef
from codeflash_parallel.result.candidate.content_json import (
    CONTENT_FIELDS,
    content_document,
    content_of,
    text_field,
)
from codeflash_parallel.result.codec import from_plain, to_plain
from codeflash_parallel.result.errors import UsageError

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
    try:
        found = getattr(_module(where), name)
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
        raise MalformedAnswer("a git ref cannot be an answer; give a patch, a replacement or edits")
    about = {"explanation": answer.explanation, "parent": answer.parent}
    return {**content_document(answer.content), **about}


def _module(where: str) -> ModuleType:
    if not where.endswith(".py"):
        return import_module(where)
    path = Path(where).resolve()
    sys.path.insert(0, str(path.parent))
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{where} is no Python file")
    module = module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
