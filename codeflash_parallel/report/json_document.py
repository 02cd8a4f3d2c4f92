"""The JSON contract for programs: the document as text, and the schema that ships with it."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files

from codeflash_parallel.report.json_text import dumps, line
from codeflash_parallel.result.result_document import Document, check_invariants, document, error_document

__all__ = ["Document", "check_invariants", "document", "dumps", "error_document", "line", "schema"]


@cache
def schema() -> Document:
    """Return the JSON Schema (2020-12) of the document."""
    text = files("codeflash_parallel.report").joinpath("schema.json").read_text(encoding="utf-8")
    loaded: Document = json.loads(text)
    return loaded
