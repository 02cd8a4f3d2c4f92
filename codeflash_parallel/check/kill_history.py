"""Which tests caught earlier candidates of the same targets: they are run first.

A convenience: a history that cannot be read is empty, one that cannot be written is lost, and of two runs
that write at once the later one counts.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from codeflash_parallel.candidates.target import Target
from codeflash_parallel.process.atomic_file import write_atomically
from codeflash_parallel.result.candidate_model import digest_of

#: Tests that one history names at most.
MOST_TESTS = 200
#: Histories, one for each set of targets, that one repository has at most.
MOST_HISTORIES = 200
#: Weight that a kill keeps from one run to the next: a test that catches nothing any more falls behind.
_KEPT = 0.8
#: Below this a kill is forgotten (some twenty runs ago).
_LEAST = 0.01
#: A larger file is not ours.
_LARGEST_BYTES = 1 << 20


class Kills:
    """The kills of one set of targets: of earlier runs, and of this one as they happen."""

    def __init__(self, path: Path, weights: Mapping[str, float]) -> None:
        self._path = path
        self._before = dict(weights)
        self._now: dict[str, float] = {}

    @classmethod
    def load(cls, home: Path, targets: Iterable[Target]) -> Kills:
        """Read the history of some targets from a repository's folder in the cache."""
        name = digest_of("\n".join(sorted(map(str, targets))).encode())[:24]
        path = home / "kills" / f"{name}.json"
        return cls(path, _read(path))

    def add(self, test: str) -> None:
        """Note that a test caught a candidate."""
        self._now[test] = self._now.get(test, 0.0) + 1.0

    @property
    def order(self) -> tuple[str, ...]:
        """Return the tests that caught something, the most deadly first."""
        return ranked(self._merged())

    def save(self) -> None:
        """Write the history, if this run has added to it. Blocks."""
        if self._now:
            with contextlib.suppress(OSError):
                self._path.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(self._path, json.dumps(bounded(self._merged())).encode())
                _forget_the_oldest(self._path.parent)

    def _merged(self) -> dict[str, float]:
        return merged(self._before, self._now)


def merged(before: Mapping[str, float], now: Mapping[str, float]) -> dict[str, float]:
    """Return the weights after a run with some kills."""
    tests = before.keys() | now.keys()
    return {test: _KEPT * before.get(test, 0.0) + now.get(test, 0.0) for test in tests}


def ranked(weights: Mapping[str, float]) -> tuple[str, ...]:
    """Return tests by weight, the heaviest first; equal ones by name."""
    return tuple(sorted(weights, key=lambda test: (-weights[test], test)))


def bounded(weights: Mapping[str, float]) -> dict[str, float]:
    """Return the heaviest weights, as many as are kept."""
    return {test: weights[test] for test in ranked(weights)[:MOST_TESTS] if weights[test] >= _LEAST}


def _forget_the_oldest(folder: Path) -> None:
    """Remove the histories that were not written for longest, beyond those that are kept."""
    by_age = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for path in by_age[MOST_HISTORIES:]:
        path.unlink(missing_ok=True)


def _read(path: Path) -> dict[str, float]:
    """Return what a file says, as far as it makes sense."""
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            return {}
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    entries = data.items() if isinstance(data, dict) else ()
    return bounded({test: float(weight) for test, weight in entries if _is_weight(weight)})


def _is_weight(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")
