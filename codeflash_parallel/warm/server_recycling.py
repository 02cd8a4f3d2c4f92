"""When a warm server is replaced by a new one. Pure."""

from __future__ import annotations

from dataclasses import dataclass

#: Forks of one template: each costs it some memory (copied pages, kernel structures), none is worth a limit.
MOST_FORKS = 1_000
#: What depends on the time of day at import must not stay as it was for a whole night.
LONGEST_S = 1_800.0
#: A template does nothing but fork: one that grows by this much is not what it was.
GROWTH_FACTOR = 1.5
GROWTH_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Wear:
    """What a template has been through.

    Attributes:
        forks: that it made.
        age_s: since it was ready.
        rss_at_ready_bytes, rss_bytes: resident memory then and now; now 0: it is gone.
    """

    forks: int
    age_s: float
    rss_at_ready_bytes: int
    rss_bytes: int


def worn(wear: Wear) -> str:
    """Return why a template is to be replaced, one clause; empty while it is good."""
    if not wear.rss_bytes:
        return "it is gone"
    if wear.forks >= MOST_FORKS:
        return f"it has made {wear.forks} forks"
    if wear.age_s >= LONGEST_S:
        return f"it is {wear.age_s / 60:.0f} minutes old"
    if wear.rss_bytes > GROWTH_FACTOR * wear.rss_at_ready_bytes + GROWTH_BYTES:
        grown = (wear.rss_bytes - wear.rss_at_ready_bytes) >> 20
        return f"it has grown by {grown} MiB"
    return ""
