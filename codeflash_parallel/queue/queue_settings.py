"""Every setting of the queue, with its default, its unit and its help text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from codeflash_parallel.config.settings_reader import QUEUE_PREFIX, QUEUE_TABLE, SettingsTable, read_table
from codeflash_parallel.config.settings_table import (
    HIGHEST,
    RATE,
    RateText,
    SettingColumns,
    bad_setting,
    check_values,
    columns_of,
    setting,
    span_s,
)
from codeflash_parallel.queue.jobs import JobKind, Overflow, Strategy

#: No weights, and no limits of kinds.
_NOTHING: Mapping[str, Any] = MappingProxyType({})

#: Name of the daemon's socket in the queue's folder.
SOCKET_NAME = "daemon.socket"


class StartRate(NamedTuple):
    """Largest number of starts within a sliding window."""

    starts: int
    window_ms: int


def _start_rate(text: RateText) -> StartRate | None:
    """Return the rate that a text says; `None` if it is empty.

    Raises:
        ValueError: it is no rate.
    """
    if not text:
        return None
    starts, _, span = text.partition("/")
    rate = StartRate(int(starts), round(span_s(span) * 1000))
    if not (span[-1:].isalpha() and 1 <= rate.starts <= HIGHEST and rate.window_ms):
        raise ValueError(text)
    return rate


def _why_not_rate(text: RateText) -> str:
    try:
        _start_rate(text)
    except ValueError:
        return f"must be {RATE.words}, not {text!r}"
    return ""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueSettings:
    """Settings of a queue. Times are in seconds, as people write them."""

    max_concurrent: int = setting(0, "Jobs that run at once; 0: as many as the cores and the memory allow.")
    strategy: Strategy = setting(Strategy.FAIR, "Order of jobs: fair, fifo or priority.", choices=Strategy)
    rate_limit: RateText = setting(
        "",
        "Starts of one submitter per span: 1/5m, units s, m, h and d; empty: no limit.",
        why_not=_why_not_rate,
    )
    max_queue_size: int = setting(10_000, "Jobs that may wait; 0: no limit.")
    overflow: Overflow = setting(
        Overflow.REJECT,
        "What becomes of a job for which there is no room: reject, or drop-oldest.",
        choices=Overflow,
    )
    per_submitter_running: int = setting(0, "Jobs of one submitter that run at once; 0: no limit.")
    per_submitter_queued: int = setting(0, "Jobs of one submitter that may wait; 0: no limit.")
    weights: Mapping[str, float] = setting(
        _NOTHING,
        "Shares of runs and submitters by name, 0.001 to 1000; a name that is not given has 1.",
        takes_several=True,
        minimum=0.001,  # less is no share, and numbers of virtual time stay small
        maximum=1000,
    )
    job_timeout: float = setting(3600.0, "Seconds that one attempt of a job may run; 0: no limit.")
    queue_timeout: float = setting(86_400.0, "Seconds that a job may wait before it expires; 0: no limit.")
    lease: float = setting(
        30.0, "Seconds without a sign of life after which a job's worker counts as dead.", minimum=0.1
    )
    heartbeat: float = setting(10.0, "Seconds between the signs of life of a job's worker.", minimum=0.05)
    max_attempts: int = setting(
        3,
        "Attempts that may crash, and attempts that the machine may break, before a job is dead.",
        minimum=1,
    )
    kind_limits: Mapping[str, int] = setting(
        _NOTHING,
        "Jobs of a kind that run at once, by kind; one that is not named has no limit.",
        takes_several=True,
        minimum=1,
    )

    def __post_init__(self) -> None:
        check_values(self, QUEUE_SETTINGS)
        if self.heartbeat * 2 > self.lease:
            raise bad_setting(f"lease must be at least twice the heartbeat, not {self.lease:g} s.")
        if unknown := self.kind_limits.keys() - set(JobKind):
            raise bad_setting(f"kind_limits must name {', '.join(JobKind)}, not {min(unknown)!r}.")

    @property
    def start_rate(self) -> StartRate | None:
        """Limit of a submitter's starts; `None` if there is none."""
        return _start_rate(self.rate_limit)


#: The table: all columns of every setting of the queue.
QUEUE_SETTINGS: dict[str, SettingColumns] = columns_of(QueueSettings, QUEUE_PREFIX)

_TABLE = SettingsTable(
    QueueSettings, QUEUE_SETTINGS, section=QUEUE_TABLE, prefix=QUEUE_PREFIX, known=(f"{QUEUE_PREFIX}DIR",)
)

#: Reads the settings of the queue, as `read_table` does.
read_queue_settings = partial(read_table, _TABLE)
