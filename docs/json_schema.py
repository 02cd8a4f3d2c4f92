"""The JSON Schema (2020-12) of a run's document, made from the types that the codec writes.

Nothing of a run needs it: the schema that ships with the package and the reference page are made by it.
"""

# ruff: noqa: INP001 - beside the script that uses it

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import is_dataclass
from enum import StrEnum
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints, is_typeddict

from codeflash_parallel.result.result_model import SCHEMA_VERSION, CandidateResult, RunResult

Document = dict[str, Any]

_SCALARS = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}
#: Fields of a class that the document does not have.
_UNWRITTEN: dict[type, set[str]] = {CandidateResult: {"diff"}}
#: Fields that are null in the document where the class has an empty text.
_NULL_IF_EMPTY: dict[type, set[str]] = {CandidateResult: {"duplicate_of", "diff_path"}}


def run_schema() -> Document:
    """Return the schema of a run's document; records and vocabularies are definitions there."""
    definitions: Document = {}
    whole = _object_schema(RunResult, definitions)
    major = SCHEMA_VERSION.partition(".")[0]
    version = {
        "description": "Major.minor of this contract.",
        "type": "string",
        "pattern": rf"^{major}\.[0-9]+$",
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:codeflash-parallel:result:{major}",
        "title": "Result of a codeflash-parallel run",
        **whole,
        "description": "Unknown fields are to be ignored: later minor versions add fields and codes.",
        "properties": {"schema_version": version, **whole["properties"]},
        "required": ["schema_version", *whole["required"]],
        "$defs": dict(sorted(definitions.items())),
    }


def _schema_of(kind: Any, definitions: Document) -> Document:
    """Return the schema of a type's values; what it refers to is added to the definitions."""
    if (origin := get_origin(kind)) is not None:
        return _generic_schema(origin, get_args(kind), definitions)
    kind = getattr(kind, "__supertype__", kind)
    if kind in _SCALARS:
        return {"type": _SCALARS[kind]}
    if kind.__name__ not in definitions:
        is_enum = issubclass(kind, StrEnum)
        definitions[kind.__name__] = {"enum": list(kind)} if is_enum else _object_schema(kind, definitions)
    return {"$ref": f"#/$defs/{kind.__name__}"}


def _generic_schema(origin: Any, arguments: tuple[Any, ...], definitions: Document) -> Document:
    if origin is Annotated:
        plain, more = arguments
        if not isinstance(more, dict):
            return _schema_of(more, definitions)
        return more if "type" in more or "enum" in more else _schema_of(plain, definitions) | more
    if origin is tuple:
        return {"type": "array", "items": _schema_of(arguments[0], definitions)}
    if origin is Mapping:
        return {"type": "object", "additionalProperties": _schema_of(arguments[1], definitions)}
    return {"anyOf": [_schema_of(member, definitions) for member in arguments]}


def _object_schema(kind: type, definitions: Document) -> Document:
    described, properties = _descriptions(kind), {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        if name.startswith("__") or name in _UNWRITTEN.get(kind, ()):
            continue
        part = _schema_of(hint, definitions)
        if name in _NULL_IF_EMPTY.get(kind, ()):
            part = {"anyOf": [part, {"type": "null"}]}
        properties[name] = {"description": described[name], **part} if name in described else part
    doc = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0]
    shape = {"type": "object", "description": " ".join(doc.split()), "properties": properties}
    return shape if is_typeddict(kind) else shape | {"required": list(properties)}


def _descriptions(kind: type) -> dict[str, str]:
    """Return the words of a class's docstring about its attributes, and about those that it inherits."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__ if is_dataclass(kind) else (kind,)):
        told = inspect.cleandoc(base.__doc__ or "").partition("Attributes:\n")[2]
        for names, words in re.findall(r"^    (\w+(?:, \w+)*): (.*(?:\n {8}.*)*)", told, re.MULTILINE):
            text = " ".join(words.replace("`None`", "null").split())
            found |= dict.fromkeys(names.split(", "), f"{text[0].upper()}{text[1:]}")
    return found
