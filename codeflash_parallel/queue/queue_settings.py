"""Every setting of the queue, with its default, its unit and its help text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

from codeflash_parallel.queue.jobs import JobKind, Overflow, Strategy
from codeflash_parallel.result.errors import UsageError


def _setting(default: Any, help_text: str) -> Any:
    metadata = {"help": help_text, "flag": ""}
    if isinstance(default, Mapping):  # before Python 3.12 it has no hash, and counts as mutable
        return field(default_factory=lambda: default, metadata=metadata)
    return field(default=default, metadata=metadata)


#: No weights, and no limits of kinds.
_NOTHING: Mapping[str, Any] = MappingProxyType({})

#: Name of the daemon's socket in the queue's folder.
SOCKET_NAME = "daemon.socket"


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueSettings:
    """What a queue may be told. Times in seconds: this is the border where people write them."""

    max_concurrent: int = _setting(0, "Jobs that run at once; 0: as many as cores and memory bear.")
    strategy: Strategy = _setting(Strategy.FAIR, "Who is next: fair, fifo or priority.")
    rate_limit: int = _setting(0, "Starts a minute of one submitter; 0: no limit.")
    max_queue_size: int = _setting(10_000, "Jobs that may wait; 0: no limit.")
    overflow: Overflow = _setting(
        Overflow.REJECT, "What becomes of a job for which there is no room: reject, or drop-oldest."
    )
    per_submitter_running: int = _setting(0, "Jobs of one submitter that run at once; 0: no limit.")
    per_submitter_queued: int = _setting(0, "Jobs of one submitter that may wait; 0: no limit.")
    weights: Mapping[str, float] = _setting(
        _NOTHING, "Shares of runs and submitters by name; who is not named has 1."
    )
    job_timeout: float = _setting(3600.0, "Seconds that one attempt of a job may run; 0: no limit.")
    queue_timeout: float = _setting(86_400.0, "Seconds that a job may wait before it expires; 0: no limit.")
    lease: float = _setting(30.0, "Seconds without a sign of life after which a job's worker counts as dead.")
    heartbeat: float = _setting(10.0, "Seconds between the signs of life of a job's worker.")
    max_attempts: int = _setting(
        3, "Attempts that may crash, and attempts that the machine may break, before a job is dead."
    )
    kind_limits: Mapping[str, int] = _setting(
        _NOTHING, "Jobs of a kind that run at once, by kind; one that is not named has no limit."
    )

    def __post_init__(self) -> None:
        for name, lowest in _LOWEST.items():
            value = getattr(self, name)
            if not value >= lowest:  # what is no number is not, either
                raise _bad(f"{name} must be a number of at least {lowest}, not {value}.")
            if value > _HIGHEST:
                raise _bad(f"{name} must be a number of at most {_HIGHEST}.")
        if self.heartbeat * 2 > self.lease:
            raise _bad(f"lease must be at least twice the heartbeat, not {self.lease:g} s.")
        self._check_weights()
        self._check_kind_limits()

    def _check_weights(self) -> None:
        for name, weight in self.weights.items():
            if not _LEAST_WEIGHT <= weight <= 1 / _LEAST_WEIGHT:
                raise _bad(f"weights must lie between 0.001 and 1000; that of {name!r} is {weight}.")

    def _check_kind_limits(self) -> None:
        for kind, limit in self.kind_limits.items():
            if kind not in list(JobKind):
                raise _bad(f"kind_limits must name {', '.join(JobKind)}, not {kind!r}.")
            if limit < 1:
                raise _bad(f"kind_limits must be at least 1; that of {kind} is {limit}.")


def _bad(message: str) -> UsageError:
    return UsageError("BAD_SETTING", message)


#: A share of less than a thousandth is none, and numbers of virtual time stay small.
_LEAST_WEIGHT = 0.001

#: As seconds 31 years; in milliseconds it fits the queue's clock.
_HIGHEST = 1_000_000_000

_LOWEST: Mapping[str, float] = MappingProxyType(
    {
        "max_concurrent": 0,
        "rate_limit": 0,
        "max_queue_size": 0,
        "per_submitter_running": 0,
        "per_submitter_queued": 0,
        "job_timeout": 0,
        "queue_timeout": 0,
        "lease": 0.1,
        "heartbeat": 0.05,
        "max_attempts": 1,
    }
)

#: Names of all settings of the queue, in the order of the table.
QUEUE_SETTING_NAMES: tuple[str, ...] = tuple(f.name for f in fields(QueueSettings))
