"""Baselines on disk: one folder each, named by everything that it depends on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from codeflash_parallel.behavior.baseline import Baseline, from_json, to_json
from codeflash_parallel.model.candidate import digest_of
from codeflash_parallel.model.errors import EnvironmentFault
from codeflash_parallel.process.files import write_atomically


def name_of(*parts: str | int | Sequence[object]) -> str:
    """Return the name of the baseline that depends on these parts.

    Args:
        parts: JSON values.
    """
    return digest_of(json.dumps(parts).encode())[:24]


def load(folder: Path) -> Baseline | None:
    """Read a baseline from disk; one that cannot be read, or whose inputs are gone, is none."""
    try:
        baseline = from_json(json.loads((folder / "baseline.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if baseline.calls and not (folder / "inputs").is_file():
        return None
    return replace(baseline, inputs=str(folder / "inputs"))


def save(folder: Path, baseline: Baseline) -> None:
    """Write a baseline, whole or not at all.

    Raises:
        EnvironmentFault: the cache cannot be written.
    """
    try:
        write_atomically(folder / "baseline.json", json.dumps(to_json(baseline)).encode())
    except OSError as error:
        raise EnvironmentFault("CACHE_UNWRITABLE", f"{folder} cannot be written: {error}.") from error
