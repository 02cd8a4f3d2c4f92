"""What is known of the fork points of one baseline, on disk."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from codeflash_parallel.check.dispatch.fork_points import ForkPoint
from codeflash_parallel.process.atomic_file import write_atomically
from codeflash_parallel.warm.slot_servers import Key


class ForkPointStore:
    """What is known of the points of one baseline, kept beside it: empty where all is well, else why not.

    Attributes:
        unkept: as in `check.comparison.call_comparison.ComparisonRules`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[Key, str] = {}
        self._written: dict[Key, str] = {}
        self.unkept: frozenset[str] = frozenset()

    def of(self, key: Key) -> str | None:
        """Return why a point cannot be used, empty where it can; `None`: nobody has looked."""
        return self._known.get(key)

    def note(self, key: Key, why: str, unkept: frozenset[str] = frozenset()) -> None:
        """Take an answer."""
        self._known[key] = why
        self.unkept |= unkept

    @property
    def are_new(self) -> bool:
        """Say whether there is something to write."""
        return self._known != self._written

    def read(self) -> dict[Key, str]:
        """Read what earlier runs found out; what cannot be read is not known. Blocks."""
        try:
            data = json.loads(self._path.read_text(encoding="utf-8"))
            read = {(mode, ForkPoint(point)): str(why) for mode, point, why in data["points"]}
            self.unkept |= frozenset(map(str, data["unkept"]))
        except (OSError, LookupError, ValueError, TypeError):
            read = {}
        self._known, self._written = read | self._known, read
        return dict(self._known)

    def write(self) -> None:
        """Blocks; what cannot be written is found out again."""
        self._written = dict(self._known)
        points = [[mode, point.value, why] for (mode, point), why in sorted(self._known.items())]
        data = {"points": points, "unkept": sorted(self.unkept)}
        with suppress(OSError):
            write_atomically(self._path, json.dumps(data).encode())
