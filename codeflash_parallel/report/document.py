"""The JSON contract for programs: the document as text, and the schema that ships with it."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from codeflash_parallel.model.document import Document, check_invariants, document, error_document

__all__ = ["Document", "check_invariants", "document", "dumps", "error_document", "line", "schema"]


def dumps(data: Any) -> str:
    """Return JSON text, ASCII only: what others wrote cannot act on a terminal in this form, either."""
    return json.dumps(data, indent=2, allow_nan=False)


def line(data: Any) -> str:
    """Return JSON text as `dumps` does, on one line."""
    return json.dumps(data, allow_nan=False)


@cache
def schema() -> Document:
    """Return the JSON Schema (2020-12) of the document."""
    text = files("codeflash_parallel.report").joinpath("schema.json").read_text(encoding="utf-8")
    loaded: Document = json.loads(text)
    return loaded
