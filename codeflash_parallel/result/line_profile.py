"""Where the time of the targets goes, line by line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class LineTiming:
    """One line of a line profile."""

    path: str
    line: int
    hits: int
    time_ns: int
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class LineProfile:
    """A line profile of the targets over the captured calls.

    Attributes:
        tracer: `line_profiler`, `sys.monitoring` or `sys.settrace`.
        lines: in order of path and line; only lines of the targets.
    """

    tracer: str
    lines: tuple[LineTiming, ...]

    @classmethod
    def of(cls, data: Mapping[str, Any] | None) -> LineProfile | None:
        """Return the profile that a JSON object says, `None` for none.

        Raises:
            KeyError, TypeError: it is not of that form.
        """
        if data is None:
            return None
        return cls(tracer=data["tracer"], lines=tuple(LineTiming(**line) for line in data["lines"]))
