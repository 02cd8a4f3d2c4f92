"""How the queue is, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from codeflash_parallel.queue.daemon_protocol import DaemonInfo
from codeflash_parallel.queue.metrics import DurationSummary, QueueHealth
from codeflash_parallel.report.queue.phrases import seconds_words


def health_document(health: QueueHealth, daemon: DaemonInfo | None) -> dict[str, Any]:
    """Return the figures as JSON has them; a duration that nobody has measured is null.

    Args:
        health: counted from the queue's rows.
        daemon: what it says of itself; `None`: there is none.
    """
    figures = {field.name: _plain(getattr(health, field.name)) for field in fields(health)}
    utilisation = _utilisation(health, daemon)
    return {
        **figures,
        "utilisation": utilisation,
        "daemon": None if daemon is None else _plain_daemon(daemon),
    }


def _plain(value: Any) -> Any:
    match value:
        case DurationSummary():
            return {"count": value.count, "p50_s": _measured(value.p50_s), "p95_s": _measured(value.p95_s)}
        case Mapping():
            return {str(name): item for name, item in value.items()}
        case _:
            return value


def _measured(seconds: float) -> float | None:
    return seconds if seconds >= 0 else None


def _plain_daemon(daemon: DaemonInfo) -> dict[str, Any]:
    return {**daemon._asdict(), "workers": [worker._asdict() for worker in daemon.workers]}


def _utilisation(health: QueueHealth, daemon: DaemonInfo | None) -> float:
    """Return the share of the slots that are at work: by the daemon, which knows its slots best."""
    busy, slots = (health.running, health.slots) if daemon is None else (daemon.slots_busy, daemon.slots)
    return round(busy / slots, 3) if slots else 0.0


def health_rows(health: QueueHealth, daemon: DaemonInfo | None) -> list[tuple[str, str]]:
    """Return names and figures for people."""
    return [*_about_daemon(health, daemon), *_about_jobs(health)]


def _about_daemon(health: QueueHealth, daemon: DaemonInfo | None) -> Iterator[tuple[str, str]]:
    if daemon is None:
        yield "daemon", "none is running: `codeflash-parallel serve` starts one; jobs are kept"
    else:
        draining = ", ends when those that run have ended" if daemon.draining else ""
        yield "daemon", f"process {daemon.pid}, up for {seconds_words(daemon.up_s)}{draining}"
        yield "slots", f"{daemon.slots_busy} of {daemon.slots} busy"
        yield "benchmark token", daemon.token_holder or "free"
        if daemon.last_fault:
            yield "last fault of the daemon", daemon.last_fault
    if health.paused:
        yield "paused", "no job starts: `codeflash-parallel queue unpause` undoes it"


def _about_jobs(health: QueueHealth) -> Iterator[tuple[str, str]]:
    oldest = f", the oldest for {seconds_words(health.oldest_s)}" if health.depth else ""
    yield "waiting", f"{health.depth}{oldest}"
    yield "running", str(health.running)
    yield "waits", _spread(health.waits)
    yield "service times", _spread(health.services)
    for name, age_s in health.lease_ages_s.items():
        yield f"lease of {name}", f"renewed {seconds_words(age_s)} ago"
    if health.results:
        yield "finished", ", ".join(f"{count} {name}" for name, count in health.results.items())
    yield "attempts", str(health.attempts)
    if health.last_error:
        yield "last error", health.last_error


def _spread(spread: DurationSummary) -> str:
    if not spread.count:
        return "none yet"
    half, most = seconds_words(spread.p50_s), seconds_words(spread.p95_s)
    return f"half within {half}, 95 % within {most}, of {spread.count}"
