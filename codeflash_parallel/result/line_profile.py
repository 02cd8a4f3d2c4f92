"""Where the time of the targets goes, line by line."""

from __future__ import annotations

from dataclasses import dataclass


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
        tracer: `line_profiler` or `sys.settrace`.
        lines: in order of path and line; only lines of the targets.
    """

    tracer: str
    lines: tuple[LineTiming, ...]
