"""The state of a campaign: lines of JSON in a folder, one for each thing that is done."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

Line = dict[str, Any]


class Kept:
    """A file of lines. A line that a killed campaign left half written is passed over."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __iter__(self) -> Iterator[Line]:
        if self._path.exists():
            with self._path.open(encoding="utf-8") as file:
                for text in file:
                    with suppress(json.JSONDecodeError):
                        yield json.loads(text)

    def select(self, **wanted: object) -> list[Line]:
        """Return the lines that have these values."""
        return [line for line in self if all(line.get(key) == value for key, value in wanted.items())]

    def add(self, line: Line) -> None:
        """Append a line."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a+b") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 1))
            broken = file.read(1) not in {b"", b"\n"}
            file.write(b"\n" * broken + json.dumps(line).encode() + b"\n")
