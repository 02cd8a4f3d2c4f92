"""Figures of a queue, and how a monitoring system reads them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, kw_only=True, slots=True)
class Spread:
    """Of a number of durations, in seconds; negative where there are none."""

    count: int = 0
    p50_s: float = -1.0
    p95_s: float = -1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """How a queue does; everything comes from its rows.

    Attributes:
        depth: jobs that wait, those included that may not start yet.
        slots: jobs that may run at once.
        waits: from the submission to the first start, of recent jobs.
        services: from the last start to the end, of recent jobs that have a result.
        oldest_s: for how long the oldest waiting job has waited; 0 if none waits.
        last_error: the newest fault of any job; empty if there was none.
        lease_ages_s: seconds since the last sign of life of each running job, by its id.
        states: jobs by their state.
        results: finished jobs by their state and fault code (`done` has none); a bounded set of labels.
        attempts: claims of all jobs.
    """

    depth: int
    running: int
    slots: int
    paused: bool
    waits: Spread
    services: Spread
    oldest_s: float
    last_error: str
    lease_ages_s: Mapping[str, float] = MappingProxyType({})
    states: Mapping[str, int] = MappingProxyType({})
    results: Mapping[str, int] = MappingProxyType({})
    attempts: int = 0
