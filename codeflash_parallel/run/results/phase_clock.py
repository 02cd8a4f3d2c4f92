"""Where the time of a run went."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import monotonic_ns


@dataclass(slots=True)
class PhaseClock:
    """Adds up where the run's time went."""

    ms: dict[str, float] = field(default_factory=dict)
    _since_ns: int = field(default_factory=monotonic_ns)

    def lap(self, name: str) -> None:
        """Say what the time since the last call, or since the start, was spent on."""
        now_ns = monotonic_ns()
        self.ms[name] = self.ms.get(name, 0.0) + (now_ns - self._since_ns) / 1e6
        self._since_ns = now_ns
