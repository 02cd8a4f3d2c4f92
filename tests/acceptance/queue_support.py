"""What tests of the queue's commands have in common."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
from contract import shipped_schema
from harness import Finished, Place

RIGHT = 'def shout(text):\n    return text.upper().rstrip("!") + "!"\n'
WRONG = 'def shout(text):\n    return text.upper() + "!!"\n'
TARGET = ("--function", "words.py::shout")

#: Made once: to hold the schema itself against its own costs more than most documents.
_VALIDATOR = jsonschema.Draft202012Validator(shipped_schema("queue.schema.json"))


def with_queue(place: Place, cache: Path) -> Place:
    """Return a place with a cache, and so a queue, of its own, and two candidates in its folder for state."""
    for name, text in (("right", RIGHT), ("wrong", WRONG)):
        (place.state / f"{name}.py").write_text(text, encoding="utf-8")
    return replace(place, cache=cache)


def submit(place: Place, name: str, *options: str) -> Finished:
    given = ("--candidates", str(place.state / f"{name}.py"), *TARGET)
    return place.run("queue", "submit", *given, *options)


def answer(finished: Finished, status: int = 0) -> dict[str, Any]:
    """Return a command's document; it is valid, and nothing else is on the standard output."""
    assert finished.status == status, str(finished)
    assert "Traceback" not in finished.errors
    data: dict[str, Any] = json.loads(finished.stdout)
    _VALIDATOR.validate(data)
    return data


def job_of(finished: Finished, status: int = 0) -> dict[str, Any]:
    (job,) = answer(finished, status)["jobs"]
    return job
