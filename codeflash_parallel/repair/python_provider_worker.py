"""Calls a Python provider in a process of its own: a request on stdin, answers on stdout."""

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

from codeflash_parallel.repair.provider_documents import answers_document, read_refinements, read_repair
from codeflash_parallel.repair.provider_protocol import checked_answers
from codeflash_parallel.result.errors import UsageError


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
    """Answer one request: ``repair SPEC`` or ``refine SPEC``."""
    kind, spec = arguments
    # stdout is ours; what the provider prints goes where people look for it
    answers_to = os.dup(1)
    os.dup2(2, 1)
    if isinstance(sys.stdout, TextIOWrapper):  # what is printed comes before what goes wrong afterwards
        sys.stdout.reconfigure(line_buffering=True)
    document = json.load(sys.stdin)
    provider = load_callable(spec)
    if kind == "repair":
        request = read_repair(document)
        answers = checked_answers(provider(request), [request.candidate])
    else:
        requests = read_refinements(document)
        answers = checked_answers(provider(requests), [r.candidate for r in requests])
    with os.fdopen(answers_to, "w") as file:
        json.dump(answers_document(answers), file)
    return 0


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
