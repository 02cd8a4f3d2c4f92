"""JSON for programs: the text, and the schemas that ship with the package. Light: queues need it."""

from __future__ import annotations

import json
from functools import cache
from typing import Any


def dumps(data: Any) -> str:
    """Return JSON text, ASCII only: what others wrote cannot act on a terminal in this form, either."""
    return json.dumps(data, indent=2, allow_nan=False)


def line(data: Any) -> str:
    """Return JSON text as `dumps` does, on one line."""
    return json.dumps(data, allow_nan=False)


@cache
def schema(name: str = "schema.json") -> dict[str, Any]:
    """Return a JSON Schema (2020-12): of a run's document, or `queue.schema.json`."""
    from importlib.resources import files

    text = files("codeflash_parallel.report").joinpath(name).read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded
